# SPDX-License-Identifier: Apache-2.0
# softfold_hip_kernels(TARGET): adds what runs checked problems on an AMD GPU (gpu/run.hpp) to a
# backend's library, for SOFTFOLD_HIP_ARCHITECTURES. A macro: enable_language is for the directory.
include("${CMAKE_CURRENT_LIST_DIR}/../gpu/sources.cmake")

softfold_gpu_kernels(softfold_hip_kernel_sources hip unsupported.hpp unsupported.hpp unsupported.hpp)
list(APPEND softfold_hip_kernel_sources "${CMAKE_CURRENT_LIST_DIR}/attention.hip")
set(softfold_hip_runtime "${CMAKE_CURRENT_LIST_DIR}/runtime.cpp")
set(softfold_hip_includes "${CMAKE_CURRENT_LIST_DIR}" ${softfold_gpu_includes})
# The headers of HIP, and idioms of device code, are not written for these.
set(softfold_hip_kernel_options -Wno-conversion -Wno-sign-conversion -Wno-shadow -Wno-unknown-pragmas)

macro(softfold_hip_kernels target)
  find_package(hip QUIET)
  if(NOT hip_FOUND)
    message(FATAL_ERROR "Kernels for HIP need its runtime: install libamdhip64-dev and hipcc (Debian) or "
                        "set hip_ROOT to where ROCm is. BACKEND=hip runs them without by "
                        "-DSOFTFOLD_HIP_ON_HOST=ON.")
  endif()
  target_sources(${target} PRIVATE
    ${softfold_hip_runtime} ${softfold_hip_kernel_sources} ${softfold_gpu_sources})
  target_include_directories(${target} PRIVATE ${softfold_hip_includes})
  target_link_libraries(${target} PRIVATE hip::host)
  set_property(GLOBAL APPEND PROPERTY SOFTFOLD_KERNELS_NEED hip)  # of a static library
  set_property(GLOBAL APPEND PROPERTY SOFTFOLD_PC_LIBS -lamdhip64)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # The kernels by the C++ compiler itself. It finds the parts of ROCm where AMD installs them; Debian
    # has its own directories.
    set(softfold_hip_options -x hip ${softfold_hip_kernel_options})
    if(NOT CMAKE_CXX_COMPILER MATCHES "hipcc[^/]*$")
      # As by hipcc, without function calls, whose stack would be in memory.
      list(APPEND softfold_hip_options -mllvm -amdgpu-early-inline-all=true
           -mllvm -amdgpu-function-calls=false)
    endif()
    find_path(SOFTFOLD_HIP_DEVICE_LIBRARIES ocml.bc
              HINTS "${ROCM_PATH}" "${hip_LIB_INSTALL_DIR}" /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
              PATH_SUFFIXES amdgcn/bitcode NO_DEFAULT_PATH
              DOC "Directory of AMD's device libraries, where the compiler does not find them")
    if(SOFTFOLD_HIP_DEVICE_LIBRARIES)
      list(APPEND softfold_hip_options "--rocm-device-lib-path=${SOFTFOLD_HIP_DEVICE_LIBRARIES}")
    endif()
    cmake_path(GET hip_INCLUDE_DIRS PARENT_PATH softfold_hip_prefix)
    list(APPEND softfold_hip_options "--rocm-path=${softfold_hip_prefix}" --hip-version=${hip_VERSION})
    foreach(unit IN LISTS softfold_hip_kernel_sources)
      softfold_architectures_of(softfold_hip_targets ${unit} ${SOFTFOLD_HIP_ARCHITECTURES})
      list(TRANSFORM softfold_hip_targets PREPEND --offload-arch=)
      set_source_files_properties(${unit} PROPERTIES
        LANGUAGE CXX COMPILE_OPTIONS "${softfold_hip_options};${softfold_hip_targets}")
    endforeach()
  else()
    include(CheckLanguage)
    check_language(HIP)
    if(NOT CMAKE_HIP_COMPILER)
      message(FATAL_ERROR "Kernels for HIP: CMake's HIP language does not work here. Build with clang 15 or "
                          "newer, or ROCm's: -DCMAKE_CXX_COMPILER=clang++-15 (Debian: clang-15).")
    endif()
    set(CMAKE_HIP_ARCHITECTURES ${SOFTFOLD_HIP_ARCHITECTURES})
    enable_language(HIP)
    set_source_files_properties(${softfold_hip_kernel_sources} PROPERTIES
      LANGUAGE HIP COMPILE_OPTIONS "${softfold_hip_kernel_options}")
    set_target_properties(${target} PROPERTIES HIP_STANDARD 20 HIP_VISIBILITY_PRESET hidden)
  endif()
endmacro()
