# SPDX-License-Identifier: Apache-2.0
set(SOFTFOLD_INSTRUCTION_SETS avx2,avx512,avx512_bf16,amx
    CACHE STRING "On x86-64, instruction sets to compile the kernels for beside the baseline")

# softfold_host_sources(TARGET): the work on rows in host memory, shared by the backends that run
# on a host's threads.
function(softfold_host_sources target)
  set(directory "${PROJECT_SOURCE_DIR}/backends/host")
  set(sources machine.cpp scratch.cpp attention/attention.cpp attention/states.cpp edit/edit.cpp plan/plan.cpp row/state.cpp map/backward.cpp
              map/normalize.cpp map/softmax.cpp reduce/rows.cpp reduce/states.cpp reproducible/backward.cpp
              reproducible/rows.cpp reproducible/states.cpp reproducible/topk.cpp scan/scan.cpp
              topk/lists.cpp topk/selection.cpp topk/topk.cpp sampling/entry_list.cpp sampling/list.cpp
              sampling/masses.cpp sampling/parts.cpp sampling/race.cpp sampling/sample.cpp
              sampling/verify.cpp isa/baseline.cpp)
  # One translation unit for each instruction set; choose_kernels picks one at run time.
  set(options_avx2 -mavx2 -mfma -mf16c -mprfchw)
  # g++ 12 warns of its own intrinsics' undefined operands.
  set(options_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprfchw
      "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>")
  set(options_avx512_bf16 ${options_avx512} -mavx512bf16)
  set(options_amx ${options_avx512_bf16} -mamx-tile -mamx-bf16)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    string(REPLACE "," ";" sets "${SOFTFOLD_INSTRUCTION_SETS}")
    foreach(pair "avx512_bf16;avx512" "amx;avx512_bf16")
      list(GET pair 0 isa)
      list(GET pair 1 below)
      if(isa IN_LIST sets AND NOT below IN_LIST sets)
        message(FATAL_ERROR "SOFTFOLD_INSTRUCTION_SETS has ${isa} without ${below}, which has its other "
                            "kernels; add that.")
      endif()
    endforeach()
    foreach(isa IN LISTS sets)
      if(NOT DEFINED options_${isa})
        message(FATAL_ERROR "SOFTFOLD_INSTRUCTION_SETS has ${isa}; expected some of avx2, avx512, "
                            "avx512_bf16, amx.")
      endif()
      list(APPEND sources isa/${isa}.cpp)
      set_source_files_properties("${directory}/isa/${isa}.cpp" PROPERTIES
                                  COMPILE_OPTIONS "${options_${isa}}")
      string(TOUPPER SOFTFOLD_HAS_${isa} has)
      set_property(SOURCE "${directory}/machine.cpp" APPEND PROPERTY COMPILE_DEFINITIONS ${has})
    endforeach()
  endif()
  if(SOFTFOLD_SANITIZE MATCHES "address")
    # Checked by calls: in line, these take two to seven times as long to compile. Fuzzing leaves
    # undefined behaviour to the sanitizers' own build.
    set(checked --param asan-instrumentation-with-call-threshold=0)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      set(checked -mllvm -asan-instrumentation-with-call-threshold=0)
    endif()
    if(SOFTFOLD_BUILD_FUZZ)
      list(APPEND checked -fno-sanitize=undefined)
    endif()
    set_property(SOURCE ${directory}/isa/avx2.cpp ${directory}/isa/avx512.cpp
                        ${directory}/isa/avx512_bf16.cpp ${directory}/isa/amx.cpp
                 APPEND PROPERTY COMPILE_OPTIONS ${checked})
    # The baseline's kernels are checked where there are no others, which are the same templates and
    # would run instead: a sixth of the build's time.
    if(SOFTFOLD_INSTRUCTION_SETS)
      set(checked -fno-sanitize=all)
    endif()
    set_property(SOURCE ${directory}/isa/baseline.cpp APPEND PROPERTY COMPILE_OPTIONS ${checked})
  endif()
  list(TRANSFORM sources PREPEND "${directory}/")
  # Kokkos' compilers take every source for one of CUDA's or HIP's, which the vectors here are not.
  if(CMAKE_CXX_COMPILER MATCHES "nvcc_wrapper")
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS --host-only)
  elseif(Kokkos_ENABLE_HIP)
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS
                 -x c++ -Wno-unused-command-line-argument)
  endif()
  target_sources(${target} PRIVATE ${sources})
endfunction()
