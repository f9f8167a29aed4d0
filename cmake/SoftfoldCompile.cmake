# SPDX-License-Identifier: Apache-2.0
# Compile settings of this project's own targets.

if(SOFTFOLD_SANITIZE)
  add_compile_options(-fsanitize=${SOFTFOLD_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SOFTFOLD_SANITIZE})
endif()

if(SOFTFOLD_BUILD_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SOFTFOLD_BUILD_FUZZ needs clang, for libFuzzer: -DCMAKE_CXX_COMPILER=clang++.")
  endif()
  # Coverage, for the fuzzer to steer by.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

# softfold_compile(TARGET): C++20, warnings, and arithmetic exactly as written. Contraction is
# off because a product and a sum fused on one machine and not on another would change bits;
# where a fused operation is wanted the code says so.
function(softfold_compile target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
      -Wnon-virtual-dtor)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-ffp-contract=off;$<$<BOOL:${SOFTFOLD_WERROR}>:-Werror>>"
    "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Xcompiler=-Wall,-Wextra;$<$<BOOL:${SOFTFOLD_WERROR}>:-Werror=all-warnings>>")
endfunction()

# softfold_library(NAME BACKEND sources...): the library of one backend, softfold_<backend>,
# with the targets softfold::softfold and softfold::<backend>.
function(softfold_library backend)
  find_package(ZLIB QUIET)
  if(NOT ZLIB_FOUND)
    message(FATAL_ERROR "softfold needs zlib: install zlib1g-dev (Debian) or set ZLIB_ROOT.")
  endif()
  set(name softfold_${backend})
  # What is the same for every backend.
  set(shared_sources attention_states.cpp c_interface.cpp entries.cpp row_states.cpp state_format.cpp)
  list(TRANSFORM shared_sources PREPEND "${PROJECT_SOURCE_DIR}/core/")
  add_library(${name} ${ARGN} ${shared_sources})
  add_library(softfold::softfold ALIAS ${name})
  add_library(softfold::${backend} ALIAS ${name})
  softfold_compile(${name})
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:softfold_core> ZLIB::ZLIB)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" AND CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
    # The threads of a backend's runtime live on after the last queue: dlclose must leave their code.
    target_link_options(${name} PRIVATE "LINKER:-z,nodelete")
  endif()
  set_property(GLOBAL APPEND PROPERTY SOFTFOLD_PC_REQUIRES zlib)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_definitions(${name} PUBLIC SOFTFOLD_BACKEND=${backend})
  set_target_properties(${name} PROPERTIES
    EXPORT_NAME ${backend}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()
