// SPDX-License-Identifier: Apache-2.0
/// \file
/// Problems whose memory has been checked, for the translation units that have their kernels: those
/// of each element type, and the one of states and lists.
#pragma once

#include <gpu/executor.hpp>
#include <gpu/sampling/way.hpp>

#include <core/edited.hpp>
#include <core/problem.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// rows.inl: whether run_as takes the problem with its edits; it takes all without.
template <class In>
bool reads_edits(const core::row_problem& p);
template <class In>
bool reads_edits(const core::normalize_problem& p);
template <class In>
bool reads_edits(const core::fold_problem& p);

/// rows.inl, gradients.inl and topk.inl.
template <class In>
void run_as(executor& on, const core::row_problem& p);
template <class In>
void run_as(executor& on, const core::backward_problem& p);
template <class In>
void run_as(executor& on, const core::normalize_problem& p);
template <class In>
void run_as(executor& on, const core::fold_problem& p);
template <class In>
void run_as(executor& on, const core::topk_problem& p);
/// topk.inl: the lists of rows' spans, which are left to be merged, in `memory`; none, and nothing
/// done, of rows that are not listed by spans. Without states; of 16- and 32-bit elements.
template <class In>
span_lists list_spans_as(executor& on, const core::topk_problem& p, scratch& memory);

/// reproducible.inl: the same to the bits of core/reproducible.hpp; without edits.
template <class In>
void run_reproducibly(executor& on, const core::row_problem& p);
template <class In>
void run_reproducibly(executor& on, const core::topk_problem& p);
template <class In>
void run_reproducibly(executor& on, const core::backward_problem& p);

/// exact_states.inl: of states with exact sums; without edits.
template <class In>
void run_exactly(executor& on, const core::fold_problem& p);
template <class In>
void run_exactly(executor& on, const core::normalize_problem& p);

/// What softmax.inl needs of a problem that has reads_edits, or no edits.
struct softmax_rows {
  const const_matrix_ref& x;
  const core::edits& edits;
  double scale;
  const matrix_ref& y;
  empty_row policy;
  const void* states = nullptr;  ///< of the rows, if they are given
};
template <class In, bool log>
void run_softmax_as(executor& on, const softmax_rows& rows);

/// edit.inl: what core::edited_run asks for.
void edit(executor& on, const const_matrix_ref& x, const core::edits& edits, const matrix_ref& to,
          double removed);
void narrow(executor& on, const const_matrix_ref& from, const matrix_ref& to);
void settle(executor& on, const core::settled_lists& lists);

/// scan.inl.
void scan(executor& on, const core::scan_problem& p);

/// attention.inl.
void attention(executor& on, const core::attention_problem& p);
void combine_attention(executor& on, const core::combine_attention_problem& p);
void normalize_attention(executor& on, const core::normalize_attention_problem& p);

/// combine.inl.
void combine_states(executor& on, const core::combine_problem& p);
void logsumexp_of_states(executor& on, const core::state_problem& p);
void combine_lists(executor& on, const core::lists_problem& p);

/// sample.inl; the top lists' logits stand in their place. Whether it takes the problem with its
/// edits, too.
bool reads_edits(const core::sample_problem& p);
void sample_rows(executor& on, const core::sample_problem& p, const sample_lists& lists);

/// sample_parts.inl: the states; lists are problems of their own.
void fold_sample_rows(executor& on, const core::fold_sample_problem& p);
void combine_sample_rows(executor& on, const core::combine_sample_problem& p);
void finish_sample_rows(executor& on, const core::finish_sample_problem& p);

/// verify.inl.
void verify_coupled(executor& on, const core::coupled_problem& p);
void verify_by_ratio(executor& on, const core::ratio_problem& p);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
