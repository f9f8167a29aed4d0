# SPDX-License-Identifier: Apache-2.0
# softfold_cuda_kernels(TARGET): adds what runs checked problems on a CUDA device (gpu/run.hpp) to a
# backend's library, for CMAKE_CUDA_ARCHITECTURES. A macro: enable_language is for the directory.
include(CheckCompilerFlag)
include(CheckLanguage)
include("${CMAKE_CURRENT_LIST_DIR}/../gpu/sources.cmake")

set(softfold_cuda_sources "${CMAKE_CURRENT_LIST_DIR}/runtime.cpp" "${CMAKE_CURRENT_LIST_DIR}/attention.cu")
set(SOFTFOLD_CUDA_COMPRESS_MODE size CACHE STRING
    "How nvcc compresses the kernels, if it has a choice: size, none, ...")
set(softfold_cuda_includes "${CMAKE_CURRENT_LIST_DIR}" ${softfold_gpu_includes})

# Kernels for compute capability 9.0 and newer have code of their own. A newer device runs the others'
# if the library was compiled only for older ones: RESULT is the lowest capability, times 10, whose
# devices run the newer code.
function(softfold_cuda_hopper_from result)
  set(from 9999)
  foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
    if(architecture MATCHES "^([0-9]+)")
      set(capability ${CMAKE_MATCH_1})
    else()
      set(capability 90)  # "native", "all": each device has its own
    endif()
    if(capability GREATER_EQUAL 90 AND capability LESS from)
      set(from ${capability})
    endif()
  endforeach()
  set(${result} ${from} PARENT_SCOPE)
endfunction()

# Products by groups of four warps are instructions of compute capability 9.0 alone, which code for
# it, "90a", has beside the rest's.
function(softfold_cuda_groups target)
  if(NOT "${CMAKE_CUDA_ARCHITECTURES}" MATCHES "(^|;)90|native|all")
    target_compile_definitions(${target} PRIVATE SOFTFOLD_CUDA_HAS_GROUPS=0)
    return()
  endif()
  set(groups ${target}_groups)
  add_library(${groups} OBJECT "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/attention_groups.cu")
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    set_target_properties(${groups} PROPERTIES
      ${property} "$<TARGET_PROPERTY:${target},${property}>")
  endforeach()
  set_target_properties(${groups} PROPERTIES
    CUDA_ARCHITECTURES 90a-real CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(${target} PRIVATE SOFTFOLD_CUDA_HAS_GROUPS=1)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${groups}>)
endfunction()

# A target's property says for which architectures; here each unit's options do, of those written
# as "90-real".
function(softfold_cuda_architectures_by_type target)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES OFF)
  foreach(unit IN LISTS ARGN)
    softfold_architectures_of(architectures ${unit} ${CMAKE_CUDA_ARCHITECTURES})
    if(unit MATCHES "/attention[.]cu$")  # the longest of all, and the same instructions on newer devices
      list(GET architectures 0 architectures)
    endif()
    list(TRANSFORM architectures REPLACE "^([0-9]+)-real$"
         "--generate-code=arch=compute_\\1,code=sm_\\1")
    if(unit MATCHES "[.]cu$")
      set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS "${architectures}")
    endif()
  endforeach()
endfunction()

macro(softfold_cuda_kernels target)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "Kernels for CUDA need the CUDA toolkit, 12.0 or newer: put nvcc on the "
                        "PATH or set CMAKE_CUDA_COMPILER.")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 12.0 REQUIRED)
  softfold_gpu_kernels(softfold_cuda_units cu cluster_reduction.hpp "cluster.hpp;ring.hpp;together.hpp" total_cluster.hpp)
  target_sources(${target} PRIVATE ${softfold_cuda_sources} ${softfold_cuda_units} ${softfold_gpu_sources})
  target_include_directories(${target} PRIVATE ${softfold_cuda_includes})
  softfold_cuda_hopper_from(softfold_hopper_from)
  target_compile_definitions(${target} PRIVATE SOFTFOLD_CUDA_HOPPER_FROM=${softfold_hopper_from})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>)
  set(softfold_compress "--compress-mode=${SOFTFOLD_CUDA_COMPRESS_MODE}")
  set(softfold_compresses "SOFTFOLD_CUDA_COMPRESSES_${SOFTFOLD_CUDA_COMPRESS_MODE}")
  check_compiler_flag(CUDA "${softfold_compress}" ${softfold_compresses})
  if(${softfold_compresses})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${softfold_compress}>)
  endif()
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
                                             CUDA_VISIBILITY_PRESET hidden)
  if(SOFTFOLD_ARCHITECTURES_BY_TYPE)
    softfold_cuda_architectures_by_type(${target} ${softfold_cuda_units} ${softfold_cuda_sources})
  endif()
  target_link_libraries(${target} PRIVATE CUDA::cudart)
  softfold_cuda_groups(${target})
  set_property(GLOBAL APPEND PROPERTY SOFTFOLD_KERNELS_NEED CUDAToolkit)  # of a static library
endmacro()
