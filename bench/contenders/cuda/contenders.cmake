# SPDX-License-Identifier: Apache-2.0
# The cuda backend's part of softfold_bench. The kernels are a library of their own, because
# warnings and other options of the C++ compiler are not nvcc's.
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

add_library(softfold_bench_cuda STATIC
  contenders/cuda/copy.cu
  contenders/cuda/cub.cu
  contenders/cuda/paper.cu
  contenders/cuda/one_read.cu)
target_compile_definitions(softfold_bench_cuda PRIVATE SOFTFOLD_BACKEND=cuda)
target_compile_options(softfold_bench_cuda PRIVATE -std=c++20 -Xcompiler=-Wall,-Wextra,-Wshadow
  $<$<BOOL:${SOFTFOLD_WERROR}>:--Werror=all-warnings;-Xcompiler=-Werror>)
target_include_directories(softfold_bench_cuda PRIVATE
  "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")

target_sources(softfold_bench PRIVATE cases_gpu.cpp)
target_link_libraries(softfold_bench PRIVATE softfold_bench_cuda CUDA::cudart)

# Beside the toolkit, or where a Python wheel has it: DIRECTORY/include, DIRECTORY/lib.
set(SOFTFOLD_CUDNN_ROOT "" CACHE PATH "Where cuDNN is, e.g. .../site-packages/nvidia/cudnn")
find_path(SOFTFOLD_CUDNN_INCLUDE cudnn.h HINTS "${SOFTFOLD_CUDNN_ROOT}" ${CUDAToolkit_INCLUDE_DIRS}
          PATH_SUFFIXES include)
find_library(SOFTFOLD_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
             HINTS "${SOFTFOLD_CUDNN_ROOT}" "${CUDAToolkit_LIBRARY_DIR}" PATH_SUFFIXES lib lib64)
if(SOFTFOLD_CUDNN_INCLUDE AND SOFTFOLD_CUDNN_LIBRARY)
  target_sources(softfold_bench PRIVATE contenders/cuda/cudnn.cpp)
  target_include_directories(softfold_bench SYSTEM PRIVATE "${SOFTFOLD_CUDNN_INCLUDE}")
  target_link_libraries(softfold_bench PRIVATE "${SOFTFOLD_CUDNN_LIBRARY}")
  target_compile_definitions(softfold_bench PRIVATE SOFTFOLD_BENCH_CUDNN)
else()
  message(STATUS "softfold_bench: without cuDNN (-DSOFTFOLD_CUDNN_ROOT=DIRECTORY)")
endif()
