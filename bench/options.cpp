// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace softfold::bench {
namespace {

template <class Number>
Number number(std::string_view option, std::string_view text, Number lowest) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= lowest)) {
    throw std::invalid_argument(std::string(option) + " does not take \"" + std::string(text) +
                                "\"");
  }
  return value;
}

std::vector<std::string> parts(std::string_view text) {
  std::vector<std::string> all;
  while (true) {
    const std::size_t comma = text.find(',');
    all.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) {
      return all;
    }
    text.remove_prefix(comma + 1);
  }
}

std::vector<int> numbers(std::string_view option, std::string_view text) {
  std::vector<int> values;
  for (const std::string& part : parts(text)) {
    values.push_back(number(option, part, 1));
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

options parse_options(int argc, char** argv) {
  options o;
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (std::ranges::find(arguments, "--quick") != arguments.end()) {
    o.quick = true;  // first: what is given beside it, in any order, counts more
  }
  o.settings = default_settings(o.quick);
  for (auto a = arguments.begin(); a != arguments.end(); ++a) {
    const std::string_view option = *a;
    const auto value = [&] {
      if (++a == arguments.end()) {
        throw std::invalid_argument(std::string(option) + " needs a value");
      }
      return *a;
    };
    if (option == "--help" || option == "-h") {
      o.help = true;
    } else if (option == "--list") {
      o.list = true;
    } else if (option == "--quick") {
      continue;
    } else if (option == "--filter") {
      o.filter = value();
    } else if (option == "--contenders") {
      o.contenders = value();
    } else if (option == "--plan") {
      o.plans = parts(value());
    } else if (option == "--threads") {
      o.threads = numbers(option, value());
    } else if (option == "--numerics") {
      o.numerics = value();
      if (o.numerics != "fast" && o.numerics != "reproducible") {
        throw std::invalid_argument("--numerics does not take \"" + o.numerics + "\"");
      }
    } else if (option == "--rounds") {
      o.settings.rounds = number(option, value(), 1);
    } else if (option == "--min-time") {
      o.settings.min_time = number(option, value(), 1e-6);
    } else if (option == "--out") {
      o.out = value();
    } else if (option == "--logits") {
      o.logits = value();
    } else {
      throw std::invalid_argument("unknown option " + std::string(option) + "; see --help");
    }
  }
  o.settings.fewest_rounds = std::min(o.settings.fewest_rounds, o.settings.rounds);
  return o;
}

}  // namespace softfold::bench
