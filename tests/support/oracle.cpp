#include "tests/support/oracle.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace tutti::oracle {
namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "int64") return at::kLong;
  if (name == "int32") return at::kInt;
  if (name == "float32") return at::kFloat;
  if (name == "float64") return at::kDouble;
  if (name == "float16") return at::kHalf;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "complex64") return at::kComplexFloat;
  if (name == "uint8") return at::kByte;
  if (name == "bool") return at::kBool;
  throw std::runtime_error("oracle: dtype " + name + " is not read yet");
}

double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string text = json.get<std::string>();
  return text == "nan" ? std::numeric_limits<double>::quiet_NaN() : text == "inf" ? infinity : -infinity;
}

Json read(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("oracle: cannot open " + path);
  return Json::parse(stream);
}

}  // namespace

Json own_document(const std::string& file) { return read(std::string(TUTTI_TESTS_ORACLE) + '/' + file); }

Json document(const std::string& file) {
  const char* folder = std::getenv("TUTTI_ORACLE_DIR");
  return folder ? read(std::string(folder) + '/' + file) : own_document(file);
}

Json cases(const std::string& file) { return document(file).at("cases"); }

Tensor tensor(const Json& json) {
  const Json& data = json.at("data");
  const Tensor flat = at::empty(static_cast<int64_t>(data.size()), dtype_of(json.at("dtype")));
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i].is_boolean())
      flat[static_cast<int64_t>(i)].fill_(data[i].get<bool>());
    else if (data[i].is_number_integer())
      flat[static_cast<int64_t>(i)].fill_(data[i].get<int64_t>());
    else if (data[i].is_array())
      flat[static_cast<int64_t>(i)].fill_(c10::complex<double>(number_of(data[i][0]), number_of(data[i][1])));
    else
      flat[static_cast<int64_t>(i)].fill_(number_of(data[i]));
  }
  return flat.view(json.at("shape").get<std::vector<int64_t>>());
}

bool equals(const Tensor& actual, const Json& recorded) {
  const Tensor expected = tensor(recorded);
  if (actual.sizes() != expected.sizes() || actual.scalar_type() != expected.scalar_type()) return false;
  if (at::isIntegralType(expected.scalar_type(), /*includeBool=*/true)) return at::equal(actual, expected);
  const bool half = at::isReducedFloatingType(expected.scalar_type());
  return at::allclose(actual, expected, half ? 1e-2 : 1e-5, half ? 0 : 1e-5, /*equal_nan=*/true);
}

}  // namespace tutti::oracle
