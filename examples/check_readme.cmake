# SPDX-License-Identifier: Apache-2.0
# cmake -DREADME=README.md -DEXAMPLE=next_token.cpp -P check_readme.cmake
# Fails unless the README's first C++ block is the example, without its SPDX line.
file(READ "${README}" readme)
file(READ "${EXAMPLE}" example)
string(FIND "${example}" "\n" end)
math(EXPR begin "${end} + 1")
string(SUBSTRING "${example}" ${begin} -1 example)

string(FIND "${readme}" "```cpp\n" begin)
if(begin EQUAL -1)
  message(FATAL_ERROR "${README} has no C++ block.")
endif()
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${readme}" ${begin} -1 block)
string(FIND "${block}" "```\n" end)
string(SUBSTRING "${block}" 0 ${end} block)

if(NOT block STREQUAL example)
  message(FATAL_ERROR "The first C++ block of ${README} is not ${EXAMPLE}:\n${block}")
endif()
