// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a backend for a GPU provides to the kernels here and to those who start them. Each has its
/// own device.hpp, launch.hpp and handles.hpp in its folder, found by the include path; no other
/// file here includes them. The host's part of the contract is runtime.hpp.
///
/// handles.hpp
///   stream_handle                  what the runtime calls a stream
///
/// launch.hpp: starting a kernel, in a stream's order. Kernel arguments follow by value.
///   launch_grid(stream, kernel, blocks, threads, arguments...)
///   launch_shared(stream, kernel, blocks, threads, shared_bytes, arguments...)
///                                  with dynamic shared memory
///   launch_next(same)              may begin while the launch before it ends; its kernel calls
///                                  wait_for_launch_before, the one before let_next_begin
///
/// device.hpp: groups of lanes. A warp (a wavefront) has `lanes` lanes, 32 or 64.
///   with_lanes(lanes, body)        body(std::integral_constant<int, lanes>) on the host
///   target_has_lanes<lanes>        whether the code being compiled is for warps of so many
///   stop_wrong_lanes()             ends a kernel that is not for this target
///   lane_mask, ballot(predicate)   a bit for each lane of the warp
///   count(mask), lanes_below()     bits of a mask; the mask of the lanes before this one
///   shuffle(value, from), shuffle_xor(value, mask)
///   add_of_lane_below<lanes>(to, value, distance)
///                                  of f32, where it is quicker than group/combine.hpp's
///   max_over_warp<lanes>(key), min_over_warp<lanes>(key), has_max_over_warp
///                                  of 32-bit keys; whether by one instruction
///   sum_over_warp<lanes>(number)   of 32 bits; by one instruction where those are
///   synchronize_warp()             orders the warp's accesses to shared memory
///
/// device.hpp: arithmetic.
///   max_or_nan(a, b)               the larger; NaN if either is
///   min_or_nan(a, b)               the smaller; NaN if either is
///   max_of_pairs<In>(a, b)         the same of two 16-bit elements in a word
///   min_of_pairs(a, b)             the smaller of two 16-bit integers in a word
///   half_above(pair, i, low)       16-bit number i of a word above the lower half of another
///   other_of(a, b, one)            that of two 32-bit integers which `one` is not, by other units
///                                  than those that compare, if there are such
///   wide_product(a, b)             of two 32-bit integers in 64 bits
///   add_product_where(sums, x, least, a, b)
///                                  adds a wide product to sums[0] if x >= least[0], to sums[1] if
///                                  x >= least[1], to sums[2] if least[2] <= x < least[1]
///   fast_exp2(x), fast_log2(x), fast_reciprocal(x)
///   saturated_fma(a, b, c)         a b + c, rounded once, or 0 or 1, whichever is the nearer; 0 if
///                                  it is NaN
///   to_float(x), to_half_pair(low, high), to_bfloat16_pair(low, high)
///   order_key(x)                   core::order_key
///   order_keys_of_pair<In>(pair)   of two 16-bit elements in a word, 16-bit numbers in that order
///   count_bits, lowest_bit, leading_zeros, shift_left(x, n): n may be 32 and more, which gives 0
///   pair_mask(four, w)             of 4 bits: 0xffff if bit 2 w is set, 0xffff0000 if 2 w + 1 is
///
/// device.hpp: memory.
///   block16                        gpu/row/block16.hpp
///   load_vector<once>(from)        16 bytes; `once`: they are not read again
///   load_word(from)                4 bytes of global memory
///   store_vector(to, vector)       16 bytes that are not read soon
///   dynamic_shared_memory()
///   copy_ahead(shared, from), wait_for_copies(), copies_ahead
///                                  copies to shared memory under way; whether they are
///   prefetch_line(address), prefetches, multiprocessors()
///   vectors_under_way              that a thread may ask for before it uses the first
///   stages_rows                    whether short rows are put together before they are written
///   least_resident(blocks)         blocks that a kernel's registers should leave room for
///   forget_origin(variable)        the compiler no longer knows where a value came from
///   SOFTFOLD_OUT_OF_LINE           before functions that are called seldom
#pragma once

#include "device.hpp"
#include "handles.hpp"
#include "launch.hpp"
