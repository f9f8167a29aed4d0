# SPDX-License-Identifier: Apache-2.0
# What runs checked problems on a GPU, besides the kernels that each backend compiles in its own
# language; and the queue and buffers of the backends that are nothing else.
set(softfold_gpu_sources executor.cpp plan/names.cpp plan/plan.cpp plan/sizes.cpp plan/topk.cpp run.cpp)
set(softfold_gpu_queue_sources buffer.cpp queue.cpp)
list(TRANSFORM softfold_gpu_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
list(TRANSFORM softfold_gpu_queue_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(softfold_gpu_includes "${PROJECT_SOURCE_DIR}/backends")

# softfold_gpu_kernels(RESULT EXTENSION REDUCTIONS MAPS TOTALS): writes the kernels' translation units in
# a backend's language, all but attention's, which are its own. REDUCTIONS: its header of kernels that
# write a result for each row; MAPS: its headers of those that write one for each element; TOTALS: its
# header of those of reproducible rows. Each job has a unit for each element type: they compile side by
# side, and a program's first call of a function loads little more than that function.
function(softfold_gpu_kernels result extension reductions maps totals)
  set(units)
  macro(add_unit name content)
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.${extension}")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "${content}")
    list(APPEND units "${unit}")
  endmacro()
  list(TRANSFORM maps REPLACE "(.+)" "#include <\\1>\n")
  list(JOIN maps "" maps)
  foreach(type IN ITEMS float double half bfloat16)
    add_unit(rows_${type} "#include <${reductions}>\n#include <gpu/rows.inl>\nSOFTFOLD_GPU_ROWS(${type});\n")
    add_unit(topk_${type} "#include <gpu/topk.inl>\nSOFTFOLD_GPU_TOPK(${type});\n")
    add_unit(softmax_${type} "${maps}#include <gpu/softmax.inl>\nSOFTFOLD_GPU_SOFTMAX(${type});\n")
    add_unit(log_softmax_${type} "${maps}#include <gpu/softmax.inl>\nSOFTFOLD_GPU_LOG_SOFTMAX(${type});\n")
    add_unit(reproducible_${type} "#include <${totals}>\n#include <gpu/exact_states.inl>\nSOFTFOLD_GPU_REPRODUCIBLE(${type});\nSOFTFOLD_GPU_EXACT_STATES(${type});\n")
    add_unit(gradients_${type} "${maps}#include <gpu/gradients.inl>\nSOFTFOLD_GPU_GRADIENTS(${type});\n")
  endforeach()
  foreach(job IN ITEMS combine edit sample sample_parts scan verify)
    add_unit(${job} "#include <gpu/${job}.inl>\n")
  endforeach()
  set(${result} ${units} PARENT_SCOPE)
endfunction()

option(SOFTFOLD_ARCHITECTURES_BY_TYPE
       "For tests of the compiled code: kernels of half and double for the first architecture alone, those of float and bfloat16 for the others"
       OFF)
mark_as_advanced(SOFTFOLD_ARCHITECTURES_BY_TYPE)

# softfold_architectures_of(RESULT UNIT architectures...): those that a unit of kernels is compiled for.
function(softfold_architectures_of result unit)
  set(architectures ${ARGN})
  if(SOFTFOLD_ARCHITECTURES_BY_TYPE AND unit MATCHES "_(float|double|half|bfloat16)[.]")
    list(POP_FRONT architectures first)
    if(unit MATCHES "_(double|half)[.]")
      set(architectures ${first})
    endif()
  endif()
  set(${result} ${architectures} PARENT_SCOPE)
endfunction()
