// SPDX-License-Identifier: Apache-2.0
/// \file
/// Macros that the other public headers share.
///
/// SOFTFOLD_BACKEND names the backend whose library the program links: cpu, cuda, hip or
/// kokkos. The CMake targets and .pc files define it. It is the inline namespace of the queue
/// and the entry points, so that one program can link two backends without a clash.
#pragma once

#ifndef SOFTFOLD_BACKEND
#define SOFTFOLD_BACKEND cpu
#endif

#if defined(__GNUC__)
#define SOFTFOLD_API __attribute__((visibility("default")))
#else
#define SOFTFOLD_API
#endif

// Functions that device compilers also compile for the device.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define SOFTFOLD_HD __host__ __device__
#else
#define SOFTFOLD_HD
#endif
