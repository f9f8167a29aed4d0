// SPDX-License-Identifier: Apache-2.0
#include "cleanup.hpp"
#include "commands.hpp"
#include "failure.hpp"

#include <softfold/error.hpp>

#include <cstdio>
#include <new>
#include <string>

namespace {

constexpr int bad_input = 2;
constexpr int internal_error = 1;

/// Prints one line, whatever a file name or a message contains.
int report(std::string message, int code) {
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      c = c == '\n' ? ' ' : '?';
    }
  }
  std::fprintf(stderr, "softfold: %s\n", message.c_str());
  return code;
}

int run(int argc, char** argv) {
  using namespace softfold::tool;
  CLI::App app("Softmax, logsumexp and top-k of the rows of NumPy files of any size.", "softfold");
  app.require_subcommand(0, 1);
  add_version(app);
  add_info(app);
  add_softmax(app);
  add_logsumexp(app);
  add_topk(app);
  add_fold(app);
  add_merge(app);
  add_finish(app);
  app.footer("See 'softfold COMMAND --help' for the options of a command.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::Error& error) {
    const auto commands = app.get_subcommands();
    const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
    return report(std::string(error.what()) + " (see softfold" + command + " --help)", bad_input);
  }
  if (app.get_subcommands().empty()) {
    return report("a command is required (see softfold --help)", bad_input);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  softfold::tool::install_signal_handlers();
  try {
    return run(argc, argv);
  } catch (const softfold::tool::failure& error) {
    return report(error.what(), bad_input);
  } catch (const softfold::error& error) {
    const bool argument = error.code() == softfold::errc::invalid_argument ||
                          error.code() == softfold::errc::unsupported_type;
    return report(error.what(), argument ? bad_input : internal_error);
  } catch (const std::bad_alloc&) {
    return report("out of memory", internal_error);
  } catch (const std::exception& error) {
    return report(error.what(), internal_error);
  }
}
