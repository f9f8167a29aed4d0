// SPDX-License-Identifier: Apache-2.0
/// \file
/// The parts of the module that are in files of their own.
#pragma once

#include <nanobind/nanobind.h>

namespace softfold::python {

void bind_attention(nanobind::module_& m);
void bind_attention_states(nanobind::module_& m);
void bind_sample(nanobind::module_& m);
void bind_states(nanobind::module_& m);
void bind_xla(nanobind::module_& m);

}  // namespace softfold::python
