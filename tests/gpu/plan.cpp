// SPDX-License-Identifier: Apache-2.0
// The plan tables of the GPU backends: every shape gets a plan that covers its rows.
#include <gpu/plan/plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace softfold::gpu {
namespace {

constexpr device_limits without_clusters = {
    .lanes = 32, .cluster_blocks = 0, .multiprocessors = 108, .shared_bytes = 166912};
constexpr device_limits with_clusters = {
    .lanes = 32, .cluster_blocks = 16, .multiprocessors = 132, .shared_bytes = 232448};
// As of gfx90a and gfx1030.
constexpr device_limits wide_warps = {
    .lanes = 64, .cluster_blocks = 0, .multiprocessors = 104, .shared_bytes = 65536};
constexpr device_limits little_shared = {.lanes = 32,
                                         .cluster_blocks = 0,
                                         .multiprocessors = 36,
                                         .shared_bytes = 65536,
                                         .cache_bytes = 128 << 20};

/// Column counts around powers of two, and between them.
std::vector<std::int64_t> column_counts() {
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n <= std::int64_t{1} << 32; n *= 2) {
    for (const std::int64_t cols : {n - 1, n, n + 1, n + n / 3}) {
      if (cols > 0) {
        all.push_back(cols);
      }
    }
  }
  return all;
}

/// Calls check(shape, device) for all of them.
template <class Check>
void for_all_shapes(const Check& check) {
  for (const device_limits& device : {without_clusters, with_clusters, wide_warps, little_shared}) {
    for (const int bytes : {2, 4, 8}) {
      for (const int alignment : {32, 16, bytes}) {
        for (const std::int64_t cols : column_counts()) {
          CAPTURE(bytes);
          CAPTURE(alignment);
          CAPTURE(cols);
          check(row_shape{cols, bytes, alignment}, device);
        }
      }
    }
  }
}

void check_covers(const row_plan& plan, const row_shape& shape, const device_limits& device) {
  const std::int64_t vectors = vectors_of(shape);
  const int each = (plan.vectors + shape.matrices - 1) / shape.matrices;  // of a matrix
  CHECK(plan.threads % device.lanes == 0);
  CHECK(plan.threads <= 1024);
  switch (plan.kind) {
    case row_plan_kind::lanes:
      CHECK(std::int64_t{plan.lanes} * each >= vectors);
      CHECK((plan.lanes & (plan.lanes - 1)) == 0);
      CHECK(plan.lanes <= device.lanes);
      return;
    case row_plan_kind::block:
      CHECK(std::int64_t{plan.threads} * each >= vectors_of(shape, 32));
      CHECK(plan.vectors % shape.matrices == 0);
      CHECK(plan.threads <= row_threads);
      return;
    case row_plan_kind::cluster:
      CHECK(plan.blocks <= device.cluster_blocks);
      CHECK(std::int64_t{plan.blocks} * plan.part >= vectors_of(shape, 32));
      CHECK(plan.threads * each >= plan.part);
      CHECK(plan.vectors == 8);
      CHECK(plan.part % 2 == 0);  // whole sectors
      CHECK(plan.threads <= cluster_threads);
      return;
    case row_plan_kind::chunks:
      CHECK(std::int64_t{plan.chunks} * chunk_vectors_of(shape.matrices) >= vectors);
      CHECK(plan.vectors == chunk_vectors_each_of(shape.matrices));
      CHECK(plan.threads <= chunk_threads);
      CHECK((plan.chunks > 1 ? plan.threads == chunk_threads
                             : plan.threads * plan.vectors >= vectors));
      return;
  }
}

/// What the kernel that selects has in shared memory: the entries, the groups' maxima and the list
/// of chosen ones, the states of the chunks' warps, and less than 6 KiB of its own; and the kernel
/// for small k: the states of a span's chunks, and less than 22 KiB of its own.
std::int64_t shared_bytes_of(const topk_plan& plan, const row_shape& shape,
                             const device_limits& device) {
  const bool wide = shape.element_bytes == 8;
  if (plan.kind == topk_plan_kind::lists) {
    return (22 << 10) + std::int64_t{plan.span} * (chunk_threads / device.lanes + 1) * 8;
  }
  const std::int64_t entries =
      plan.shared_entries ? std::int64_t{plan.capacity} * (has_packed_entries(shape) ? 8 : 16) : 0;
  const std::int64_t list = plan.group_vectors > 0 ? std::int64_t{plan.capacity} * 4 : 0;
  const std::int64_t keys = plan.split ? 0 : plan.groups * (wide ? 8 : 4);
  const std::int64_t states =
      plan.split ? 0
                 : std::int64_t{plan.chunks} * (chunk_threads / device.lanes + 1) * (wide ? 16 : 8);
  return entries + list + keys + states + (6 << 10);
}

}  // namespace

TEST_SUITE_BEGIN("plan");

TEST_CASE("two matrices side by side") {
  for_all_shapes([](const row_shape& shape, const device_limits& device) {
    row_shape both = shape;
    both.matrices = 2;
    const row_plan plan = plan_map(both, device);
    check_covers(plan, both, device);
  });
  // As many registers as for one matrix.
  const row_shape f32{25000, 4, 32, 2};
  CHECK(plan_map(f32, with_clusters).vectors == 8);
  CHECK(plan_map({65536, 4, 32, 2}, with_clusters).kind == row_plan_kind::cluster);
  CHECK(plan_map({65540, 4, 32, 2}, with_clusters).kind == row_plan_kind::chunks);
  CHECK(plan_map({65540, 4, 32, 2}, with_clusters).vectors == 4);
  CHECK(plan_map(f32, without_clusters).kind == row_plan_kind::chunks);
}

TEST_CASE("blocks hold longer rows where memory is quick, and clusters longer ones") {
  device_limits quick = with_clusters;
  quick.bytes_a_clock = 18;
  const auto kind = [](const device_limits& device, std::int64_t vectors, int bytes) {
    return plan_map({vectors * vector_bytes / bytes, bytes}, device).kind;
  };
  for (const int bytes : {2, 4}) {
    CHECK(kind(with_clusters, 1024, bytes) == row_plan_kind::cluster);
    CHECK(kind(quick, 1024, bytes) == row_plan_kind::block);
    CHECK(kind(quick, 1536, bytes) == row_plan_kind::block);
    CHECK(kind(quick, 1538, bytes) == row_plan_kind::cluster);
    CHECK(kind(quick, 3200, bytes) == row_plan_kind::cluster);
    CHECK(kind(quick, 3202, bytes) == row_plan_kind::chunks);
    CHECK(kind(with_clusters, 3200, bytes) == row_plan_kind::chunks);
  }
  const row_shape gradient{4096, 2, 32, 2};
  CHECK(plan_map(gradient, quick) == plan_map(gradient, with_clusters));
}

TEST_CASE("a cluster's blocks hold chunks of two matrices, one each or a few") {
  device_limits device = with_clusters;
  device.runs_together = true;
  device.copies_in_bulk = true;
  bool alike = true;
  const auto plan = [&](std::int64_t rows, std::int64_t cols) {
    const row_shape shape{cols, 4, 32, 2, alike};
    return plan_rows(plan_map(shape, device), rows, shape, device);
  };
  for (const std::int64_t cols : column_counts()) {
    for (const std::int64_t rows : {1, 100, 1000}) {
      const row_plan held = plan(rows, cols);
      if (held.pass == second_pass::clustered) {
        const int each = (held.chunks + held.blocks - 1) / held.blocks;
        CHECK(held.blocks <= device.cluster_blocks);
        CHECK(each <= most_chunks_held);
        CHECK((held.blocks - 1) * each < held.chunks);  // no block has none
      } else if (held.pass == second_pass::ring) {
        const int own = 672;  // of the kernel, at least
        CHECK(held.ring_slots * slot_vectors_of(2) * 16 + own <= device.shared_bytes);
        CHECK(held.chunks < held.ring_blocks * held.ring_slots);
      }
    }
  }
  CHECK(plan(1000, 65540).blocks == 9);
  CHECK(plan(1000, 262144).blocks == 16);
  CHECK(plan(1000, 262144).pass == second_pass::clustered);
  CHECK(plan(1000, 262148).pass == second_pass::ring);
  CHECK(plan(1000, 262148).ring_slots == 7);
  CHECK(plan(1000, 1 << 20).pass == second_pass::ring);
  CHECK(plan(1000, (1 << 20) + 1).pass == second_pass::reads);
  CHECK(plan(1, 65540).pass == second_pass::together);  // by more blocks
  alike = false;
  CHECK(plan(1000, 65540).pass == second_pass::ring);
  device.copies_in_bulk = false;
  CHECK(plan(1000, 65540).pass == second_pass::reads);
}

TEST_CASE("vectors cover a row wherever it starts") {
  CHECK(vectors_of({128, 4, 16}) == 32);
  CHECK(vectors_of({128, 4, 4}) == 33);
  CHECK(vectors_of({128, 4, 32}, 32) == 32);
  CHECK(vectors_of({128, 4, 16}, 32) == 33);
  CHECK(vectors_of({128, 4, 4}, 32) == 34);
  CHECK(vectors_of({1, 2, 2}) == 1);
  CHECK(vectors_of({2, 2, 2}) == 2);
}

TEST_CASE("every plan covers the row and fits the device") {
  for_all_shapes([](const row_shape& shape, const device_limits& device) {
    check_covers(plan_map(shape, device), shape, device);
    check_covers(plan_pass(shape), shape, device);
    for (const std::int64_t rows : {1, 100000}) {
      check_covers(plan_reduction(shape, rows, device), shape, device);
    }
  });
}

TEST_CASE("a reduction's chunks are a cluster's where that is quicker, and stay what they are") {
  for_all_shapes([](const row_shape& shape, const device_limits& device) {
    for (const std::int64_t rows : {1, 100, 100000}) {
      row_plan plan = plan_reduction(shape, rows, device);
      if (plan.pass == second_pass::clustered) {
        CHECK(plan.blocks == plan.chunks);
        CHECK(plan.blocks <= device.cluster_blocks);
        CHECK(plan.threads == chunk_threads);
        plan.pass = second_pass::reads;
        plan.blocks = 1;
      }
      CHECK(plan == plan_pass(shape));
    }
  });
  const auto pass = [](std::int64_t rows, std::int64_t cols, int bytes,
                       plan_name forced = plan_name::any) {
    return plan_reduction({cols, bytes, 32}, rows, with_clusters, forced).pass;
  };
  CHECK(pass(1, 8192, 4) == second_pass::reads);  // one chunk
  CHECK(pass(1, 8196, 4) == second_pass::clustered);
  CHECK(pass(1, 131072, 4) == second_pass::clustered);
  CHECK(pass(1, 131076, 4) == second_pass::reads);
  CHECK(pass(100000, 131072, 4) == second_pass::clustered);
  CHECK(pass(66, 131072, 2) == second_pass::clustered);
  CHECK(pass(67, 131072, 2) == second_pass::reads);
  CHECK(pass(67, 131072, 2, plan_name::clustered) == second_pass::clustered);
  CHECK(pass(1, 131072, 2, plan_name::chunks) == second_pass::reads);
}

TEST_CASE("a block, then an evenly shared cluster where the device has them, then chunks") {
  const auto kind = [](const row_shape& shape, const device_limits& device) {
    return plan_map(shape, device).kind;
  };
  CHECK(kind({3324, 4, 32}, with_clusters) == row_plan_kind::block);
  CHECK(kind({3328, 4, 32}, with_clusters) == row_plan_kind::cluster);
  CHECK(kind({3328, 4, 32}, without_clusters) == row_plan_kind::block);
  CHECK(kind({6656, 2, 32}, with_clusters) == row_plan_kind::cluster);
  CHECK(kind({10240, 4, 32}, with_clusters) == row_plan_kind::cluster);
  CHECK(kind({10244, 4, 32}, with_clusters) == row_plan_kind::chunks);
  CHECK(kind({10244, 4, 32}, without_clusters) == row_plan_kind::block);
  CHECK(kind({20000, 4, 32}, without_clusters) == row_plan_kind::chunks);
  // f64: no even shares of one matrix; of two, where a block has no room.
  CHECK(kind({4096, 8, 32}, with_clusters) == row_plan_kind::block);
  CHECK(kind({4098, 8, 32}, with_clusters) == row_plan_kind::chunks);
  CHECK(kind({4098, 8, 32}, without_clusters) == row_plan_kind::block);
  CHECK(kind({4096, 8, 32, 2}, with_clusters) == row_plan_kind::block);
  CHECK(kind({4098, 8, 32, 2}, with_clusters) == row_plan_kind::cluster);
  CHECK(kind({2044, 4, 32, 2}, with_clusters) == row_plan_kind::block);
  CHECK(kind({2048, 4, 32, 2}, with_clusters) == row_plan_kind::cluster);
}

TEST_CASE("rows that are read twice are taken in batches that half of a cache holds") {
  const row_shape shape = {1000000, 4, 32};
  CHECK(plan_map(shape, wide_warps).batch_rows == 0);
  CHECK(plan_map(shape, little_shared).batch_rows == 16);
  CHECK(plan_map({1 << 30, 4, 32}, little_shared).batch_rows == 1);
  CHECK(plan_map({1000, 4, 32}, little_shared).batch_rows == 0);
}

TEST_CASE("top-k: enough groups for k, and room for what is above the bound") {
  for_all_shapes([](const row_shape& shape, const device_limits& device) {
    for (const std::int64_t k : {1, 5, 64, 1024, 2048, 20000, 1000000}) {
      if (k > shape.cols) {
        continue;
      }
      CAPTURE(k);
      for (const std::int64_t rows : {1, 4000}) {
        const topk_plan plan = plan_topk(shape, rows, k, device);
        CHECK(shared_bytes_of(plan, shape, device) <= device.shared_bytes);
        CHECK(std::int64_t{plan.chunks} * chunk_vectors >= vectors_of(shape));
        if (plan.kind == topk_plan_kind::lanes) {
          CHECK(std::int64_t{plan.row.lanes} * plan.row.vectors >= vectors_of(shape));
          if (plan.ranked == 0) {
            CHECK(plan.row.vectors == sorted_vectors);
            CHECK(plan.row.lanes <= device.lanes);
          } else {
            CHECK(plan.folds_as_pass);
            CHECK(plan.ranked >= k);
            CHECK((k == 1 || plan.row.vectors >= least_ranked_vectors));
          }
          continue;
        }
        if (plan.kind == topk_plan_kind::packs) {
          const row_plan pass = plan_pass(shape);
          CHECK(plan.folds_as_pass);
          CHECK(plan.row == pass);
          CHECK(plan.pack >= k);
          CHECK(std::find(std::begin(pack_sizes), std::end(pack_sizes), plan.pack) !=
                std::end(pack_sizes));
          const int list_lanes = plan.pack / pack_of_lane(plan.pack);
          CHECK(plan.searching >= list_lanes);
          CHECK(plan.searching <= std::max(pass.lanes, list_lanes));
          CHECK(plan.searching * most_folds_each >= pass.lanes);
          CHECK(plan.warp_rows >= 1);
          CHECK(plan.warp_rows * plan.searching <= device.lanes);
          const int warps = plan.row.threads / device.lanes;
          CHECK(warps * bytes_of_packs(plan.warp_rows, static_cast<int>(vectors_of(shape)),
                                       plan.searching, plan.pack) <=
                std::min<std::int64_t>(device.shared_bytes, 100 << 10));
          continue;
        }
        if (plan.kind == topk_plan_kind::bounded) {
          CHECK(plan.chunks == 1);
          CHECK(std::int64_t{plan.threads} * chunk_vectors_each >= vectors_of(shape));
          CHECK(plan.threads % device.lanes == 0);
          continue;
        }
        if (plan.kind == topk_plan_kind::lists) {
          CHECK(plan.threads >= std::min<std::int64_t>(2 * k, chunk_threads));
          CHECK((plan.chunks == 1 || plan.threads == chunk_threads));
          CHECK(plan.span >= 1);
          CHECK(plan.span <= 128);  // whose states have their room
          CHECK(plan.spans() * std::int64_t{plan.span} >= plan.chunks);
          CHECK((plan.spans() - 1) * std::int64_t{plan.span} < plan.chunks);
        }
        if (plan.kind == topk_plan_kind::selection) {
          CHECK(plan.capacity >= k);
        }
        if (plan.group_vectors > 0) {
          CHECK(plan.groups * plan.group_vectors >= vectors_of(shape));
          CHECK(plan.groups >= 2 * k);
          CHECK(plan.capacity >= 2 * k);
        } else if (plan.kind == topk_plan_kind::selection &&
                   plan.groups > 0) {  // of an element each
          CHECK(!plan.split);
          CHECK(plan.groups >= vectors_of(shape) * (16 / shape.element_bytes));
        }
      }
      // What is computed does not depend on the number of rows, only who computes it.
      const topk_plan one = plan_topk(shape, 1, k, device);
      const topk_plan many = plan_topk(shape, 4000, k, device);
      if (one.kind == many.kind || !one.folds_as_pass) {
        CHECK(one.threads == many.threads);
      }
      CHECK(one.folds_as_pass == many.folds_as_pass);
      CHECK(one.chunks == many.chunks);
    }
  });
}

TEST_CASE("long rows are read once where the device can hold them, and no result changes with it") {
  device_limits device = with_clusters;
  device.runs_together = true;
  device.copies_in_bulk = true;
  for (const int bytes : {2, 4, 8}) {
    for (const std::int64_t cols : column_counts()) {
      for (const std::int64_t rows : {1, 2, 3, 8, 100, 1000, 100000}) {
        const row_shape shape{cols, bytes, bytes};
        const row_plan any = plan_map(shape, device);
        const row_plan plan = plan_rows(any, rows, shape, device);
        CAPTURE(bytes);
        CAPTURE(cols);
        CAPTURE(rows);
        CHECK(plan.kind == any.kind);  // what is done to a row stays
        CHECK(plan.chunks == any.chunks);
        CHECK(plan.threads == any.threads);
        if (plan.pass == second_pass::reads) {
          CHECK(plan == any);
          CHECK((plan.kind != row_plan_kind::chunks || plan.chunks > 256));
          continue;
        }
        CHECK(plan.kind == row_plan_kind::chunks);
        const std::int64_t launched =
            plan.batch_rows > 0 ? std::min<std::int64_t>(plan.batch_rows, rows) : rows;
        const bool exchanges = plan.pass != second_pass::clustered;
        CHECK(launched <= (exchanges ? most_rows_exchanged : rows));
        CHECK((!exchanges || launched * plan.chunks <= most_chunks_exchanged));
        if (plan.pass == second_pass::clustered) {
          CHECK(plan.chunks > 1);
          CHECK(plan.chunks <= device.cluster_blocks);
        } else if (plan.pass == second_pass::together) {
          CHECK(rows * plan.chunks <= device.multiprocessors * (bytes == 8 ? 2 : 4));
        } else {
          // What the kernel has beside its slots, at least.
          const int own = bytes == 8 ? 2544 : 1920;
          CHECK(plan.ring_slots <= most_ring_slots);
          CHECK(plan.ring_slots * (chunk_vectors + 8) * 16 + own <= device.shared_bytes);
          CHECK(plan.chunks < plan.ring_blocks * plan.ring_slots);  // or it would wait for ever
        }
      }
    }
  }
  const auto pass = [&](std::int64_t rows, std::int64_t cols, int bytes = 4) {
    const row_shape shape{cols, bytes, 32};
    return plan_rows(plan_map(shape, device), rows, shape, device).pass;
  };
  CHECK(pass(1, 128256) == second_pass::clustered);
  CHECK(pass(1000, 131072) == second_pass::clustered);
  CHECK(pass(1, 131076) == second_pass::together);
  CHECK(pass(16, 65536, 8) == second_pass::clustered);
  CHECK(pass(17, 65536, 8) == second_pass::ring);
  CHECK(pass(8, 500000) == second_pass::together);
  CHECK(pass(9, 500000) == second_pass::ring);
  CHECK(pass(4, 1 << 20) == second_pass::together);
  CHECK(pass(5, 1 << 20) == second_pass::ring);
  CHECK(pass(1, 1 << 24) == second_pass::reads);  // too long
  device.copies_in_bulk = false;
  CHECK(pass(5, 1 << 20) == second_pass::reads);
  device.copies_in_bulk = true;
  device.multiprocessors = 16;  // as of a part of a device
  CHECK(pass(5, 1 << 18) == second_pass::ring);
  CHECK(pass(5, 1 << 20) == second_pass::reads);
  device.runs_together = false;
  CHECK(pass(1, 1 << 20) == second_pass::reads);
  CHECK(pass(1000, 65536, 8) == second_pass::clustered);  // which needs neither
}

TEST_CASE("top-k: a block takes all chunks of a row, or fewer if there are few rows") {
  device_limits device = with_clusters;
  device.multiprocessors = 132;
  const auto plan = [&](std::int64_t rows, std::int64_t cols) {
    return plan_topk({cols, 4, 32}, rows, 5, device);
  };
  CHECK(plan(4000, 25000).spans() == 1);
  CHECK(plan(1024, 128256).spans() == 1);
  CHECK(plan(400, 128256).spans() == 2);
  CHECK(plan(1, 128256).spans() == plan(1, 128256).chunks);
  CHECK(plan(1, 1 << 24).spans() == 256);
  CHECK(plan(4000, 1 << 24).spans() == 16);  // as many states as there is room for
}

TEST_CASE("top-k of large k: groups of as many vectors as leave enough of them") {
  const auto group_vectors = [](std::int64_t cols, int bytes, std::int64_t k) {
    return plan_topk({cols, bytes, 32}, 4000, k, with_clusters).group_vectors;
  };
  CHECK(group_vectors(128256, 4, 129) == 8);
  CHECK(group_vectors(128256, 4, 512) == 8);
  CHECK(group_vectors(128256, 4, 1024) == 8);  // 3.9 k of them, and 3.07 k: more than 2000
  CHECK(group_vectors(50257, 4, 1024) == 4);
  CHECK(group_vectors(65536, 4, 512) == 4);  // 4 k groups of 8 would be 2048
  CHECK(group_vectors(16384, 4, 700) == 1);
  CHECK(group_vectors(8192, 4, 300) == 1);  // 3.4 k pairs would be less
  CHECK(group_vectors(16384, 4, 1024) == 1);
  CHECK(group_vectors(8192, 4, 1024) == 1);
  CHECK(group_vectors(8000, 4, 1024) == 0);
  CHECK(group_vectors(128256, 2, 1024) == 4);
  CHECK(group_vectors(16384, 2, 1024) == 1);
  CHECK(group_vectors(2048, 4, 200) == 0);  // so few that elements are searched themselves
}

TEST_CASE("top-k of k beyond 1024, or of a part of a row: a block of twice as many threads") {
  const auto threads = [](std::int64_t rows, std::int64_t k) {
    return plan_topk({128256, 4, 32}, rows, k, with_clusters).selection_threads();
  };
  CHECK(threads(4000, 1024) == chunk_threads);
  CHECK(threads(4000, 1025) == 2 * chunk_threads);
  CHECK(threads(1, 200) == 2 * chunk_threads);
}

TEST_CASE("top-k of short rows: the best of lanes, packs, a sort, a warp or a block") {
  const auto kind = [](const row_shape& shape, std::int64_t rows, std::int64_t k) {
    return plan_topk(shape, rows, k, with_clusters).kind;
  };
  const auto ranked = [](const row_shape& shape, std::int64_t k) {
    return plan_topk(shape, 65536, k, with_clusters).ranked;
  };
  const auto packed = [](const row_shape& shape, std::int64_t k) {
    return plan_topk(shape, 65536, k, with_clusters).pack;
  };
  CHECK(ranked({128, 4, 32}, 1) == 1);
  CHECK(ranked({128, 4, 32}, 2) == 8);
  CHECK(ranked({128, 4, 32}, 8) == 8);
  CHECK(packed({128, 4, 32}, 9) == 16);
  CHECK(packed({128, 4, 32}, 17) == 32);
  CHECK(packed({128, 4, 32}, 64) == 64);
  CHECK(packed({16, 4, 32}, 2) == 8);  // 2 vectors of each lane
  CHECK(packed({48, 4, 32}, 2) == 8);
  CHECK(packed({52, 4, 32}, 2) == 0);
  CHECK(packed({96, 2, 32}, 2) == 0);
  CHECK(packed({256, 4, 32}, 8) == 8);  // 8 vectors of each lane
  CHECK(packed({260, 4, 32}, 8) == 0);
  CHECK(kind({128, 4, 32}, 65536, 65) == topk_plan_kind::lanes);  // a sort
  CHECK(kind({512, 4, 32}, 65536, 65) == topk_plan_kind::lanes);
  CHECK(kind({516, 4, 32}, 65536, 65) == topk_plan_kind::bounded);
  CHECK(kind({384, 4, 32}, 65536, 16) == topk_plan_kind::packs);
  CHECK(kind({388, 4, 32}, 65536, 16) == topk_plan_kind::bounded);
  CHECK(kind({1024, 4, 32}, 65536, 64) == topk_plan_kind::packs);
  CHECK(kind({1000, 4, 32}, 2111, 8) == topk_plan_kind::lanes);
  CHECK(kind({1000, 4, 32}, 2112, 8) == topk_plan_kind::bounded);
  CHECK(kind({2000, 2, 32}, 2112, 8) == topk_plan_kind::bounded);
  CHECK(kind({2000, 2, 32}, 2112, 9) == topk_plan_kind::packs);
  // Few rows are shared by more warps, many by fewer lanes each.
  const topk_plan few = plan_topk({128, 4, 32}, 100, 32, with_clusters);
  const topk_plan many = plan_topk({128, 4, 32}, 65536, 32, with_clusters);
  CHECK(few.warp_rows == 1);
  CHECK(many.warp_rows * many.searching == 32);
  CHECK(few.searching > many.searching);
  CHECK(plan_topk({64, 4, 32}, 131072, 64, with_clusters).searching == 4);  // a pack's lanes
  CHECK(plan_topk({128, 4, 32}, 65536, 64, with_clusters).searching == 4);
  CHECK(plan_topk({512, 4, 32}, 65536, 64, with_clusters).searching == 8);  // shared memory
  CHECK(kind({128, 4, 32}, 1, 33) == topk_plan_kind::packs);
  // A warp of more lanes than have the row would fold it in another order.
  CHECK(plan_topk({1000, 4, 32}, 4000, 8, wide_warps).kind == topk_plan_kind::lanes);
  CHECK(kind({1000, 4, 32}, 1, 128) == topk_plan_kind::bounded);
  CHECK(kind({2048, 4, 32}, 2112, 16) == topk_plan_kind::bounded);
  CHECK(kind({2048, 4, 32}, 2111, 16) == topk_plan_kind::lists);
  CHECK(kind({2048, 4, 32}, 2112, 17) == topk_plan_kind::lists);
  CHECK(kind({4096, 4, 32}, 2112, 1) == topk_plan_kind::bounded);
  CHECK(kind({4096, 4, 32}, 2112, 2) == topk_plan_kind::lists);
  CHECK(kind({4096, 2, 32}, 2112, 8) == topk_plan_kind::bounded);
  CHECK(kind({4096, 2, 32}, 2112, 9) == topk_plan_kind::lists);
  CHECK(kind({8193, 4, 32}, 4000, 128) == topk_plan_kind::lists);
  CHECK(kind({8193, 4, 32}, 4000, 129) == topk_plan_kind::selection);
  CHECK(kind({8193, 2, 32}, 4000, 113) == topk_plan_kind::lists);
  CHECK(kind({8193, 2, 32}, 4000, 114) == topk_plan_kind::selection);
  CHECK(kind({1000, 8, 32}, 4000, 128) == topk_plan_kind::selection);
  // A warp that has the row folds it as its lanes do; where it has twice as many, they do not.
  CHECK(plan_topk({1000, 4, 32}, 4000, 64, with_clusters).folds_as_pass);
  CHECK_FALSE(plan_topk({1000, 4, 32}, 4000, 16, wide_warps).folds_as_pass);
  CHECK(plan_topk({2048, 4, 32}, 4000, 16, wide_warps).folds_as_pass);
}

TEST_SUITE_END();

}  // namespace softfold::gpu
