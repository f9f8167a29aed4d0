# SPDX-License-Identifier: Apache-2.0
# The cpu backend's part of softfold_bench.
target_sources(softfold_bench PRIVATE
  cases_cpu.cpp
  platform_host.cpp
  contenders/cpu/copy_nontemporal.cpp
  contenders/cpu/memcpy.cpp
  contenders/cpu/partial_sort.cpp
  contenders/cpu/one_read.cpp
  contenders/cpu/seeds.cpp)
target_link_libraries(softfold_bench PRIVATE TBB::tbb)

# g++ 12 warns of its own intrinsics' undefined operands.
set_source_files_properties(contenders/cpu/one_read.cpp PROPERTIES COMPILE_OPTIONS
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")

# By header and library: Debian's dnnl package file also asks for OpenCL, which the cpu engine
# does not need; XNNPACK has none.
find_path(SOFTFOLD_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(SOFTFOLD_ONEDNN_LIBRARY dnnl)
if(SOFTFOLD_ONEDNN_INCLUDE AND SOFTFOLD_ONEDNN_LIBRARY)
  file(STRINGS "${SOFTFOLD_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h" onednn_major
       REGEX "define DNNL_VERSION_MAJOR")
  string(REGEX REPLACE "[^0-9]" "" onednn_major "${onednn_major}")
  if(onednn_major EQUAL 2)
    target_sources(softfold_bench PRIVATE contenders/cpu/onednn.cpp
                                          contenders/cpu/onednn_partial_sort.cpp)
    target_include_directories(softfold_bench SYSTEM PRIVATE "${SOFTFOLD_ONEDNN_INCLUDE}")
    target_link_libraries(softfold_bench PRIVATE "${SOFTFOLD_ONEDNN_LIBRARY}" ${CMAKE_DL_LIBS})
    target_compile_definitions(softfold_bench PRIVATE SOFTFOLD_BENCH_ONEDNN)
  else()
    message(STATUS "softfold_bench: oneDNN ${onednn_major} found, 2 needed; left out")
  endif()
else()
  message(STATUS "softfold_bench: without oneDNN (libdnnl-dev)")
endif()

find_path(SOFTFOLD_XNNPACK_INCLUDE xnnpack.h)
find_path(SOFTFOLD_PTHREADPOOL_INCLUDE pthreadpool.h)
find_library(SOFTFOLD_XNNPACK_LIBRARY XNNPACK)
find_library(SOFTFOLD_PTHREADPOOL_LIBRARY pthreadpool)
if(SOFTFOLD_XNNPACK_INCLUDE AND SOFTFOLD_XNNPACK_LIBRARY AND SOFTFOLD_PTHREADPOOL_INCLUDE
   AND SOFTFOLD_PTHREADPOOL_LIBRARY)
  target_sources(softfold_bench PRIVATE contenders/cpu/xnnpack.cpp)
  target_include_directories(softfold_bench SYSTEM PRIVATE "${SOFTFOLD_XNNPACK_INCLUDE}"
                                                           "${SOFTFOLD_PTHREADPOOL_INCLUDE}")
  target_link_libraries(softfold_bench PRIVATE "${SOFTFOLD_XNNPACK_LIBRARY}"
                                               "${SOFTFOLD_PTHREADPOOL_LIBRARY}")
  target_compile_definitions(softfold_bench PRIVATE SOFTFOLD_BENCH_XNNPACK)
else()
  message(STATUS "softfold_bench: without XNNPACK (libxnnpack-dev, libpthreadpool-dev)")
endif()
