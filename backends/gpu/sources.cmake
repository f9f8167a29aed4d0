# SPDX-License-Identifier: Apache-2.0
# What runs checked problems on a GPU, besides the kernels that each backend compiles in its own
# language; and the queue and buffers of the backends that are nothing else.
set(softfold_gpu_sources executor.cpp plan/plan.cpp plan/sizes.cpp run.cpp)
set(softfold_gpu_queue_sources buffer.cpp queue.cpp)
list(TRANSFORM softfold_gpu_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
list(TRANSFORM softfold_gpu_queue_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(softfold_gpu_includes "${PROJECT_SOURCE_DIR}/backends")
