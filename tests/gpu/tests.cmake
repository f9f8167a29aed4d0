# SPDX-License-Identifier: Apache-2.0
# What the tests of the GPU backends share. Those of the plans need no GPU.
if(NOT BUILD_SHARED_LIBS)  # the plans are not exported
  set(host_tests softfold_${SOFTFOLD_BACKEND}_host)
  add_executable(${host_tests} "${CMAKE_CURRENT_LIST_DIR}/plan.cpp")
  softfold_compile(${host_tests})
  target_include_directories(${host_tests} PRIVATE "${PROJECT_SOURCE_DIR}/backends")
  target_link_libraries(${host_tests} PRIVATE softfold::softfold softfold_test_main)
  softfold_test_suites(${host_tests} plan)
endif()

# What takes more memory or time than most tests have.
set(large_tests softfold_${SOFTFOLD_BACKEND}_large)
add_executable(${large_tests} "${CMAKE_CURRENT_LIST_DIR}/large.cpp"
               "${CMAKE_CURRENT_LIST_DIR}/draws.cpp")
softfold_compile(${large_tests})
target_link_libraries(${large_tests} PRIVATE softfold::softfold softfold_test_main)
softfold_test_suites(${large_tests} large)

# softfold_graph_tests(RUNTIME): graph capture; the backend's runtime_api.hpp is in its directory.
set(softfold_gpu_tests "${CMAKE_CURRENT_LIST_DIR}")
function(softfold_graph_tests runtime)
  set(graphs softfold_${SOFTFOLD_BACKEND}_graphs)
  add_executable(${graphs} "${softfold_gpu_tests}/graphs.cpp")
  softfold_compile(${graphs})
  target_include_directories(${graphs} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${graphs} PRIVATE softfold::softfold softfold_test_main ${runtime})
  softfold_test_suites(${graphs} graphs)
endfunction()
