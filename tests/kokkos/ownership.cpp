// SPDX-License-Identifier: Apache-2.0
// softfold_kokkos_ownership caller|queue|static_queue: prints who finalised Kokkos, and when. A
// process of its own for each case, as Kokkos starts once in a process.
#include <softfold/softfold.hpp>

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

namespace {

bool in_main = true;
std::optional<softfold::queue> kept;

int failed(const char* what) {
  std::printf("wrong: %s\n", what);
  return 1;
}

bool works(softfold::queue& q) {
  std::vector<float> x(4, 1.0F);
  softfold::buffer memory(q, 4 * sizeof(float));
  memory.upload(q, x.data(), memory.size());
  auto* const data = static_cast<float*>(memory.data());
  softfold::softmax(q, softfold::matrix_view<const float>(data, 1, 4),
                    softfold::matrix_view(data, 1, 4));
  memory.download(q, x.data(), memory.size());
  q.wait();
  return x[3] == 0.25F;
}

void say_who() { std::printf(in_main ? "finalized in main\n" : "finalized after main\n"); }

}  // namespace

int main(int count, char** arguments) {
  const std::string_view owner = count > 1 ? arguments[1] : "";
  if (owner == "caller") {
    Kokkos::initialize();
  } else if (Kokkos::is_initialized()) {
    return failed("initialised before the first queue");
  }
  for (int i = 0; i < 2; ++i) {  // the second queue finds what the first has left
    softfold::queue q;
    if (!Kokkos::is_initialized() || !works(q)) {
      return failed("a queue does not work");
    }
  }
  if (!Kokkos::is_initialized()) {
    return failed("finalised with the last queue");
  }
  Kokkos::push_finalize_hook(say_who);
  if (owner == "caller") {
    Kokkos::finalize();
    return 0;
  }
  if (owner == "static_queue") {
    kept.emplace();
  }
  std::printf("main returns\n");
  in_main = false;
  return 0;
}
