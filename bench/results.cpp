// SPDX-License-Identifier: Apache-2.0
#include "results.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace softfold::bench {
namespace {

const measurement* find(const case_result& result, std::string_view name) {
  for (const measurement& m : result.measurements) {
    if (m.name == name) {
      return &m;
    }
  }
  return nullptr;
}

const measurement* quickest_peer(const case_result& result) {
  const measurement* best = nullptr;
  for (const measurement& m : result.measurements) {
    if (m.role == role::peer && (best == nullptr || m.median < best->median)) {
      best = &m;
    }
  }
  return best;
}

const measurement* ceiling_of(const case_result& result) {
  const measurement* best = nullptr;
  for (const std::string& name : ceilings(result.spec)) {
    if (const measurement* m = find(result, name);
        m != nullptr && (best == nullptr || m->median < best->median)) {
      best = m;
    }
  }
  return best;
}

// How many times as quick as `other` this library is.
std::string ratio(const measurement& own, const measurement* other) {
  if (other == nullptr) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", other->median / own.median);
  return text;
}

// Of attention the products or, of one query a head, the keys and values read; else the elements.
std::string rate(const bench_case& c, double seconds) {
  const auto [work, unit] =
      c.is_decode()       ? std::pair(static_cast<double>(c.key_value_bytes()) * 1e-9, "GB/s")
      : !c.is_attention() ? std::pair(static_cast<double>(c.elements()) * 1e-9, "Gelem/s")
      : c.threads > 0     ? std::pair(c.attention.flops() * 1e-9, "GFLOP/s")
                          : std::pair(c.attention.flops() * 1e-12, "TFLOP/s");
  char text[40];
  std::snprintf(text, sizeof text, "%.3f %s", work / seconds, unit);
  return text;
}

// Six digits are more than a timing has, and short in the file.
nlohmann::ordered_json rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return nlohmann::ordered_json::parse(text);
}

nlohmann::ordered_json to_json(const case_result& result) {
  const bench_case& c = result.spec;
  nlohmann::ordered_json json = {{"group", c.group},
                                 {"operation", name_of(c.op)},
                                 {"dtype", name_of(c.type)},
                                 {"rows", c.rows},
                                 {"cols", c.cols},
                                 {"k", c.k},
                                 {"input", name_of(c.input)},
                                 {"threads", c.threads},
                                 {"regime", regime_of(c)},
                                 {"others", rounded(result.load.others)},
                                 {"loaded", result.loaded}};
  if (c.is_attention()) {
    json["attention"] = {{"batches", c.attention.batches},     {"heads", c.attention.heads},
                         {"key_heads", c.attention.key_heads}, {"queries", c.attention.queries},
                         {"keys", c.attention.keys},           {"dim", c.attention.dim},
                         {"causal", c.attention.causal}};
    if (c.attention.sequences > 0) {
      json["attention"]["sequences"] = c.attention.sequences;
    }
    json["flops"] = static_cast<std::int64_t>(c.attention.flops());
    json["bytes"] = c.key_value_bytes();
  }
  json["results"] = nlohmann::ordered_json::array();
  for (const measurement& m : result.measurements) {
    nlohmann::ordered_json one = {{"name", m.name},
                                  {"role", name_of(m.role)},
                                  {"seconds", rounded(m.median)},
                                  {"lowest", rounded(m.lowest)},
                                  {"highest", rounded(m.highest)},
                                  {"rounds", m.rounds},
                                  {"calls", m.calls}};
    if (c.threads > 0) {
      one["own_share"] = rounded(m.own_share);
    }
    json["results"].push_back(std::move(one));
  }
  return json;
}

nlohmann::ordered_json to_json(const contender& c) {
  nlohmann::ordered_json json = {{"name", c.name}, {"role", name_of(c.role)}};
  if (!c.version.empty()) {
    json["version"] = c.version;
  }
  if (!c.absent.empty()) {
    json["absent"] = c.absent;
  }
  return json;
}

}  // namespace

void print_titles(std::ostream& out) {
  char line[160];
  std::snprintf(line, sizeof line, "%-62s %16s %10s %9s %8s %8s  %s\n", "case", "rate", "us",
                "/standard", "/peer", "/ceiling", "quickest peer");
  out << line;
}

void print_line(std::ostream& out, const case_result& result) {
  const measurement* own = find(result, "softfold");
  if (own == nullptr) {
    return;
  }
  const bench_case& c = result.spec;
  const measurement* peer = quickest_peer(result);
  char line[240];
  std::snprintf(line, sizeof line, "%-62s %16s %10.1f %9s %8s %8s  %s%s\n", name_of(c).c_str(),
                rate(c, own->median).c_str(), own->median * 1e6,
                ratio(*own, find(result, standard_peer(c))).c_str(), ratio(*own, peer).c_str(),
                ratio(*own, ceiling_of(result)).c_str(), peer != nullptr ? peer->name.c_str() : "-",
                result.loaded ? "  LOADED: do not trust" : "");
  out << line << std::flush;
}

void write_json(const std::string& path, const nlohmann::ordered_json& machine,
                const std::vector<contender>& contenders, const options& settings,
                const std::vector<case_result>& results) {
  std::ofstream file(path);
  nlohmann::ordered_json head = {{"format", 1},
                                 {"program", "softfold_bench"},
                                 {"machine", machine},
                                 {"settings",
                                  {{"quick", settings.quick},
                                   {"filter", settings.filter},
                                   {"min_time", settings.settings.min_time},
                                   {"rounds", settings.settings.rounds},
                                   {"fewest_rounds", settings.settings.fewest_rounds},
                                   {"budget", settings.settings.budget}}},
                                 {"contenders", nlohmann::ordered_json::array()}};
  for (const contender& c : contenders) {
    head["contenders"].push_back(to_json(c));
  }
  // One line for each case: a later run then differs line by line.
  std::string text = head.dump(1);
  text.erase(text.find_last_of('}'));
  while (text.back() == '\n') {
    text.pop_back();
  }
  file << text << ",\n \"cases\": [";
  const char* separator = "\n  ";
  for (const case_result& result : results) {
    file << separator << to_json(result).dump();
    separator = ",\n  ";
  }
  file << "\n ]\n}\n";
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path);
  }
}

}  // namespace softfold::bench
