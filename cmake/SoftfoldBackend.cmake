# SPDX-License-Identifier: Apache-2.0
# Which backend to build: -DBACKEND=cpu|cuda|hip|kokkos, or the same by SOFTFOLD_BACKEND.

set(softfold_backends cpu cuda hip kokkos)

if(DEFINED BACKEND)
  set(SOFTFOLD_BACKEND "${BACKEND}" CACHE STRING "Backend to build" FORCE)
endif()
set(SOFTFOLD_BACKEND cpu CACHE STRING "Backend to build: cpu, cuda, hip or kokkos")
set_property(CACHE SOFTFOLD_BACKEND PROPERTY STRINGS ${softfold_backends})

list(JOIN softfold_backends ", " softfold_backend_names)
if(NOT SOFTFOLD_BACKEND IN_LIST softfold_backends)
  message(FATAL_ERROR "BACKEND is \"${SOFTFOLD_BACKEND}\"; expected one of ${softfold_backend_names}.")
endif()
