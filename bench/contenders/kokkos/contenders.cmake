# SPDX-License-Identifier: Apache-2.0
# The kokkos backend's part of softfold_bench: a device's, or, where Kokkos' default execution space
# is on the host, a host's, with the cpu backend linked beside this one.
set(CMAKE_CXX_EXTENSIONS OFF)
find_package(Kokkos 3.4 QUIET REQUIRED)
include(SoftfoldKokkos)

if(Kokkos_ENABLE_CUDA OR Kokkos_ENABLE_HIP OR Kokkos_ENABLE_SYCL)
  target_sources(softfold_bench PRIVATE cases_gpu.cpp contenders/kokkos/copy.cpp)
  target_compile_definitions(softfold_bench PRIVATE SOFTFOLD_BENCH_ON_DEVICE)
else()
  if(NOT TBB_FOUND)
    message(FATAL_ERROR "The benchmark of the kokkos backend needs TBB, for the cpu backend: install "
                        "libtbb-dev (Debian, Ubuntu), or configure with -DSOFTFOLD_BUILD_BENCH=OFF.")
  endif()
  set(cpu_backend backends/cpu/buffer.cpp backends/cpu/queue.cpp backends/cpu/threads.cpp core/entries.cpp)
  list(TRANSFORM cpu_backend PREPEND "${PROJECT_SOURCE_DIR}/")
  add_library(softfold_bench_cpu STATIC ${cpu_backend} contenders/kokkos/softfold_cpu.cpp)
  include("${PROJECT_SOURCE_DIR}/backends/host/sources.cmake")
  softfold_host_sources(softfold_bench_cpu)
  softfold_compile(softfold_bench_cpu)
  # As the library's own, so that ccache knows the objects.
  set_target_properties(softfold_bench_cpu PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_definitions(softfold_bench_cpu PRIVATE SOFTFOLD_BACKEND=cpu)
  set_source_files_properties(contenders/kokkos/softfold_cpu.cpp PROPERTIES
                              INCLUDE_DIRECTORIES "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(softfold_bench_cpu PRIVATE softfold_core TBB::tbb)

  target_sources(softfold_bench PRIVATE
    cases_cpu.cpp
    platform_host.cpp
    contenders/cpu/copy_nontemporal.cpp
    contenders/cpu/memcpy.cpp
    contenders/cpu/one_read.cpp
    contenders/kokkos/softfold_serial.cpp)
  target_link_libraries(softfold_bench PRIVATE softfold_bench_cpu TBB::tbb)
  # As in contenders/cpu.
  set_source_files_properties(contenders/cpu/one_read.cpp PROPERTIES COMPILE_OPTIONS
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
endif()
