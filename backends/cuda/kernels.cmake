# SPDX-License-Identifier: Apache-2.0
# softfold_cuda_kernels(TARGET): adds what runs checked problems on a CUDA device (gpu/run.hpp) to a
# backend's library, for CMAKE_CUDA_ARCHITECTURES. A macro: enable_language is for the directory.
include(CheckLanguage)
include("${CMAKE_CURRENT_LIST_DIR}/../gpu/sources.cmake")

set(softfold_cuda_sources runtime.cpp rows_bf16.cu topk_bf16.cu rows_f16.cu topk_f16.cu rows_f32.cu
                          topk_f32.cu rows_f64.cu topk_f64.cu combine.cu)
list(TRANSFORM softfold_cuda_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(softfold_cuda_includes "${CMAKE_CURRENT_LIST_DIR}" ${softfold_gpu_includes})

macro(softfold_cuda_kernels target)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "Kernels for CUDA need the CUDA toolkit, 12.0 or newer: put nvcc on the "
                        "PATH or set CMAKE_CUDA_COMPILER.")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 12.0 REQUIRED)
  target_sources(${target} PRIVATE ${softfold_cuda_sources} ${softfold_gpu_sources})
  target_include_directories(${target} PRIVATE ${softfold_cuda_includes})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
                                             CUDA_VISIBILITY_PRESET hidden)
  target_link_libraries(${target} PRIVATE CUDA::cudart)
  set_property(GLOBAL APPEND PROPERTY SOFTFOLD_KERNELS_NEED CUDAToolkit)  # of a static library
endmacro()
