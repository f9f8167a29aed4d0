// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "standard_output.hpp"

#include <softfold/queue.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace softfold::tool {
namespace {

struct info_options {
  bool json = false;
  int threads = 0;
};

std::string size_text(std::size_t bytes) {
  if (bytes == 0) {
    return "none";
  }
  const bool mebibytes = bytes % (std::size_t{1} << 20) == 0;
  return std::to_string(bytes >> (mebibytes ? 20 : 10)) + (mebibytes ? " MiB" : " KiB");
}

void run(const info_options& options) {
  const queue q({.threads = options.threads});
  const device_info& info = q.info();
  const std::string version = version_text().substr(version_text().find(' ') + 1);
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"version", version},        {"backend", info.backend},   {"device", info.device},
        {"isa", info.isa},           {"threads", info.threads},   {"l1_bytes", info.l1_bytes},
        {"l2_bytes", info.l2_bytes}, {"l3_bytes", info.l3_bytes},
    };
    using handler = nlohmann::ordered_json::error_handler_t;
    print(json.dump(2, ' ', false, handler::replace) + '\n');
    return close_standard_output();
  }
  std::string text;
  const auto line = [&](std::string name, const std::string& value) {
    name.resize(9, ' ');
    text += name + value + '\n';
  };
  line("version", version);
  line("backend", info.backend);
  line("device", info.device);
  line("isa", info.isa);
  line("threads", std::to_string(info.threads));
  line("L1 data", size_text(info.l1_bytes));
  line("L2", size_text(info.l2_bytes));
  line("L3", size_text(info.l3_bytes));
  print(text);
  close_standard_output();
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("info", "Show the version and what the library runs on");
  info_options& options = set_run(command, run);
  command.add_flag("--json", options.json, "Print JSON");
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
