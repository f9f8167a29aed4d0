# SPDX-License-Identifier: Apache-2.0
# Tests of a GPU backend that need no GPU.
if(NOT BUILD_SHARED_LIBS)  # the plans are not exported
  set(host_tests softfold_${SOFTFOLD_BACKEND}_host)
  add_executable(${host_tests} "${CMAKE_CURRENT_LIST_DIR}/plan.cpp")
  softfold_compile(${host_tests})
  target_include_directories(${host_tests} PRIVATE "${PROJECT_SOURCE_DIR}/backends")
  target_link_libraries(${host_tests} PRIVATE softfold::softfold softfold_test_main)
  softfold_test_suites(${host_tests} plan)
endif()
