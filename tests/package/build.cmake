# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=dir -DBINARY=dir [-DOPTIONS=list] [-DINSTALL=prefix] [-DRUN=program]
#       -P build.cmake
# Configures and builds a project, then installs it under the prefix or runs the program.
cmake_policy(VERSION 3.25)

execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} ${OPTIONS}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --parallel 2
                COMMAND_ERROR_IS_FATAL ANY)
if(INSTALL)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${INSTALL}
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
if(RUN)
  execute_process(COMMAND ${BINARY}/${RUN} COMMAND_ERROR_IS_FATAL ANY)
endif()
