# SPDX-License-Identifier: Apache-2.0
# cmake -DDOCUMENT=guide.md -DEXAMPLE=next_token.cpp -P check_document.cmake
# Fails unless the document's first C++ block is the example, without its SPDX line.
file(READ "${DOCUMENT}" document)
file(READ "${EXAMPLE}" example)
string(FIND "${example}" "\n" end)
math(EXPR begin "${end} + 1")
string(SUBSTRING "${example}" ${begin} -1 example)

string(FIND "${document}" "```cpp\n" begin)
if(begin EQUAL -1)
  message(FATAL_ERROR "${DOCUMENT} has no C++ block.")
endif()
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${document}" ${begin} -1 block)
string(FIND "${block}" "```\n" end)
string(SUBSTRING "${block}" 0 ${end} block)

if(NOT block STREQUAL example)
  message(FATAL_ERROR "The first C++ block of ${DOCUMENT} is not ${EXAMPLE}:\n${block}")
endif()
