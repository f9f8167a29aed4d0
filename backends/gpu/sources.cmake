# SPDX-License-Identifier: Apache-2.0
# What the GPU backends share, besides the kernels that each compiles in its own language.
set(softfold_gpu_sources buffer.cpp entries.cpp plan.cpp queue.cpp sizes.cpp)
list(TRANSFORM softfold_gpu_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(softfold_gpu_includes "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_LIST_DIR}"
                          "${PROJECT_SOURCE_DIR}/backends")
