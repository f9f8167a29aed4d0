// SPDX-License-Identifier: Apache-2.0
// The reader of .npy headers, on bytes alone.
#include <doctest/doctest.h>
#include <npy.hpp>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::tool;

TEST_SUITE_BEGIN("npy");

namespace {

/// A copy whose end is the end of an allocation, so that a sanitizer sees every read past it.
npy_header parse(const std::string& file) {
  const auto copy = std::make_unique<std::byte[]>(file.size());
  std::memcpy(copy.get(), file.data(), file.size());
  return parse_npy_header({copy.get(), file.size()});
}

std::string with_header(const std::string& text, int major = 1, int minor = 0) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += static_cast<char>(minor);
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    file += static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  return file + text;
}

std::string dictionary(const std::string& descr, const std::string& order,
                       const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string with_shape(const std::string& shape) {
  return with_header(dictionary("'<f4'", "False", shape));
}

/// What the reader says about a file; empty if it accepts it.
std::string complaint(const std::string& file, bool bf16 = false) {
  try {
    const npy_header header = parse(file);
    const std::size_t size = size_of(npy_element_type(header, bf16));
    check_npy_file_size(header, size, file.size());
    return "";
  } catch (const npy_error& error) {
    return error.what();
  }
}

bool complains(const std::string& file, const std::string& about, bool bf16 = false) {
  const std::string cause = complaint(file, bf16);
  INFO("cause: " << cause);
  const bool found = cause.find(about) != cause.npos && cause.find('\n') == cause.npos;
  CHECK(found);
  return found;
}

using shape_type = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("headers that NumPy writes") {
  const npy_header header = parse(with_shape("(3, 4)"));
  CHECK(header.descr == "<f4");
  CHECK(header.shape == shape_type{3, 4});
  CHECK(header.data_offset == with_shape("(3, 4)").size());
  CHECK(parse(with_shape("()")).shape.empty());
  CHECK(parse(with_shape("(7,)")).shape == shape_type{7});
  CHECK(parse(with_shape("(0, 5)")).shape == shape_type{0, 5});
  CHECK(parse(with_shape("(2L, 3L)")).shape == shape_type{2, 3});
  CHECK(parse(with_shape("(9223372036854775807,)")).shape == shape_type{INT64_MAX});
  for (const int version : {1, 2, 3}) {
    CHECK(parse(with_header(dictionary("'<f8'", "False", "(1, 2, 3)"), version)).shape ==
          shape_type{1, 2, 3});
  }
}

TEST_CASE("spellings that mean the same") {
  for (const char* text :
       {"{'shape':(3,4),'fortran_order':False,'descr':'<f4'}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (3, 4)}   \n",
        " {\n 'descr' : '<f4',\t'shape' : ( 3 , 4 , ) , 'fortran_order' : False }\n\n"}) {
    const npy_header header = parse(with_header(text));
    CHECK(header.descr == "<f4");
    CHECK(header.shape == shape_type{3, 4});
  }
}

TEST_CASE("what is written is read back") {
  for (const shape_type& shape :
       {shape_type{}, shape_type{5}, shape_type{0}, shape_type{2, 3},
        shape_type{1000000000000, 1, 0, 7}, shape_type(npy_rank_limit, 1000000)}) {
    for (const dtype type : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16, dtype::i64}) {
      const std::string file = make_npy_header(type, shape);
      const npy_header header = parse(file);
      CHECK(header.shape == shape);
      CHECK(header.data_offset == file.size());
      CHECK(file.size() % 64 == 0);
      CHECK(file.back() == '\n');
      if (type != dtype::i64) {
        CHECK(npy_element_type(header, type == dtype::bf16) == type);
      }
    }
  }
  const std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" +
                               std::string(58, ' ') + "\n";
  CHECK(make_npy_header(dtype::f32, shape_type{3, 4}) == expected);
}

TEST_CASE("magic, version and header length") {
  complains("", "empty");
  complains("P5 some image", "wrong magic");
  complains("\x93NUMPX", "wrong magic");
  const std::string text = dictionary("'<f4'", "False", "(0,)");
  for (const int major : {0, 4, 255}) {
    complains(with_header(text, major), "unknown .npy version");
  }
  complains(with_header(text, 1, 1), "unknown .npy version 1.1");
  complains(with_header(text, 3, 255), "unknown .npy version 3.255");
  const std::string padded = text + std::string(npy_header_limit - text.size(), ' ');
  CHECK(complaint(with_header(padded, 2)).empty());
  complains(with_header(padded + " ", 2), "64 KiB");
  complains(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "64 KiB");
}

TEST_CASE("a header that ends anywhere before its end is refused") {
  for (const int version : {1, 2, 3}) {
    const std::string file = with_header(dictionary("'<f4'", "False", "(0, 4)") + "   \n", version);
    CHECK(complaint(file).empty());
    for (std::size_t size = 1; size < file.size(); ++size) {
      complains(file.substr(0, size), "truncated header");
    }
    // The same with a length field that agrees, down to the last brace.
    const std::string text = dictionary("'<f4'", "False", "(0, 4)");
    for (std::size_t size = 0; size + 2 <= text.size() - 1; ++size) {
      complains(with_header(text.substr(0, size), version), "malformed header");
    }
  }
}

TEST_CASE("malformed dictionaries") {
  for (const char* text : {
           "",
           "[]",
           "{",
           "}",
           "{}",
           "{,}",
           "{'descr'}",
           "{'descr': }",
           "'descr': '<f4'",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,),,}",
           "{'descr': '<f4', 'fortran_order': False 'shape': (1,)}",
           "{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
           "{descr: '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': <f4, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4\", 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<\\x66' , 'fortran_order': False, 'shape': (1,)}",
           "{'descr': None, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': 'False', 'shape': (1,)}",
       }) {
    INFO("header: " << text);
    complains(with_header(text), "malformed header");
  }
  complains(with_header("{'fortran_order': False, 'shape': (1,)}"), "no descr");
  complains(with_header("{'descr': '<f4', 'shape': (1,)}"), "no fortran_order");
  complains(with_header("{'descr': '<f4', 'fortran_order': False}"), "no shape");
  std::string with_nul = dictionary("'<f4'", "False", "(0,)");
  with_nul.back() = '\0';
  complains(with_header(with_nul), "text after the dictionary");
}

TEST_CASE("shapes") {
  for (const char* shape :
       {"3", "(3)", "[3, 4]", "(,)", "(3,,)", "(3 4)", "(3.0,)", "(0x3,)", "(03,)", "(+3,)",
        "(1_0,)", "(True,)", "('3',)", "(3,", "((3,),)", "(- ,)", "(3e2,)", "(3LL,)"}) {
    INFO("shape: " << shape);
    complains(with_shape(shape), "malformed header");
  }
  complains(with_shape("(-1, 4)"), "negative dimension");
  complains(with_shape("(4, -9223372036854775807)"), "negative dimension");
  complains(with_shape("(9223372036854775808,)"), "overflow");
  complains(with_shape("(99999999999999999999999999999999999999,)"), "overflow");
  complains(with_shape("(2305843009213693952,)"), "overflow");  // 2^61 elements of 4 bytes
  complains(with_shape("(4294967296, 4294967296)"), "overflow");
  complains(with_shape("(4294967296, 4294967296, 0)"), "overflow");
  complains(with_shape("(0, 4294967296, 4294967296)"), "overflow");
  std::string many = "(";
  for (std::size_t i = 0; i <= npy_rank_limit; ++i) {
    many += "1, ";
  }
  complains(with_shape(many + ")"), "dimensions");
  CHECK(npy_element_count({"<f4", {2, 3, 4}, 0}, 4) == 24);
  CHECK(npy_element_count({"<f4", {}, 0}, 4) == 1);
  CHECK(npy_element_count({"<f4", {5, 0}, 0}, 4) == 0);
}

TEST_CASE("order") {
  complains(with_header(dictionary("'<f4'", "True", "(3, 4)")), "Fortran order");
}

TEST_CASE("element types") {
  const auto type = [](const char* descr, bool bf16 = false) {
    return npy_element_type({descr, {1}, 0}, bf16);
  };
  CHECK(type("<f2") == dtype::f16);
  CHECK(type("<f4") == dtype::f32);
  CHECK(type("<f8") == dtype::f64);
  CHECK(type("=f4") == dtype::f32);
  CHECK(type("|f4") == dtype::f32);
  CHECK(type("f4") == dtype::f32);
  CHECK(type("<u2", true) == dtype::bf16);
  CHECK(type("<V2", true) == dtype::bf16);
  CHECK(type("|V2", true) == dtype::bf16);

  const auto refused = [](const char* descr, const char* about, bool bf16 = false) {
    INFO("type: " << descr);
    complains(with_header(dictionary(std::string("'") + descr + "'", "False", "(0,)")), about,
              bf16);
  };
  refused("|O", "object");
  refused("O", "object");
  refused("O8", "object");
  refused(">f4", "big-endian");
  refused(">f2", "big-endian");
  for (const char* descr : {"<i4", "<i8", "|b1", "|u1", "<c8", "<f16", "<f1", "<f", "", "<", "<<f4",
                            "<U5", "|S3", "<M8[ns]", "|V2", "f4 ", ">i4", "float32"}) {
    refused(descr, "expected float16, float32 or float64");
  }
  refused("<u2", "--bf16");
  refused("<f4", "--bf16 needs uint16", true);
  refused(">u2", "big-endian", true);
  complains(with_header(dictionary("[('a', '<f4')]", "False", "(0,)")), "structured");
}

TEST_CASE("the file ends with the last element") {
  const std::string header = make_npy_header(dtype::f32, shape_type{2, 3});
  CHECK(complaint(header + std::string(24, 'x')).empty());
  complains(header, "truncated: 0 bytes of data, the header says 24");
  complains(header + std::string(23, 'x'), "truncated: 23 bytes");
  complains(header + std::string(25, 'x'), "bytes after the array: 25 bytes");
  complains(make_npy_header(dtype::f32, shape_type{1000000000, 1000000000}), "truncated");
  CHECK(complaint(make_npy_header(dtype::f32, shape_type{5, 0})).empty());
}

TEST_CASE("random mutations are parsed or refused, nothing else") {
  constexpr unsigned seed = 20240607;
  INFO("seed: " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return random() % n; };
  const std::string alphabet = "{}()[]'\",:\\ -+0123456789LFTdescrshapefortran_order<>=|fuV\n\t";
  std::size_t accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string file = make_npy_header(dtype::f32, shape_type{3, 4});
    if (round % 2 == 0) {
      file = with_header(dictionary("'<f4'", "False", "(3, 4)"), 1 + round % 3);
    }
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(file.size());
      const char c = below(2) == 0 ? alphabet[below(alphabet.size())] : static_cast<char>(random());
      switch (below(4)) {
        case 0:
          file[at] = c;
          break;
        case 1:
          file.insert(at, 1, c);
          break;
        case 2:
          file.erase(at, 1 + below(3));
          break;
        default:
          file.resize(at + 1);
          break;
      }
      if (file.empty()) {
        break;
      }
    }
    try {
      const npy_header header = parse(file);
      ++accepted;
      REQUIRE(header.data_offset <= file.size());
      REQUIRE(header.shape.size() <= npy_rank_limit);
      for (const std::int64_t dimension : header.shape) {
        REQUIRE(dimension >= 0);
      }
      static_cast<void>(npy_element_type(header, round % 5 == 0));
      REQUIRE(npy_element_count(header, 4) >= 0);
    } catch (const npy_error& error) {
      const std::string cause = error.what();
      REQUIRE(!cause.empty());
      REQUIRE(cause.find('\n') == cause.npos);
    }
  }
  CHECK(accepted > 0);
}

TEST_SUITE_END();
