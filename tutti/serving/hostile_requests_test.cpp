// Requests as strangers make them up: sound ones with bytes changed, cut, doubled and put elsewhere. None brings the
// server down, is answered with 500, or goes without an answer.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <random>
#include <sstream>

#include "tests/support/served_models.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/json.h"
#include "tutti/serving/api.h"
#include "tutti/serving/http_message.h"
#include "tutti/serving/model_repository.h"

namespace tutti::serving {
namespace {

using namespace std::chrono_literals;
using namespace tutti::testing_support;

const std::vector<std::pair<std::string, std::string>> kSound = {
    {"/v1/models/mix:predict",
     R"({"signature_name": "serving_default", "instances": [{"a": 1, "b": [0.5], "t": "bad"}]})"},
    {"/v1/models/mix:predict",
     R"({"inputs": {"a": [1, -2], "b": [[1e3], [NaN]], "t": [{"b64": "Z29vZA=="}, "\u00e9"]}})"},
    {"/v1/models/judge:classify", R"({"examples": [{"x": [1, 2, 3]}, {}], "context": {"x": [0.1, 0.2, 0.7]}})"},
    {"/v1/models/judge:regress", R"({"signature_name": "regress", "examples": [{"x": [1, 2, 3]}]})"},
    {"/v1/models/table:predict", R"({"instances": [0, 1, 1, 0]})"},
    {"/v2/models/mix/infer", R"({"id": "7", "inputs": [{"name": "a", "shape": [2], "datatype": "INT64", "data": [1, 2]},
      {"data": [[0.5], [1]], "name": "b", "shape": [2, 1], "datatype": "FP32"}, {"name": "t", "shape": [2], "datatype":
      "BYTES", "data": ["good", "bad"]}], "outputs": [{"name": "sum", "parameters": {"binary_data": true}}]})"},
    {"/v2/models/judge/infer", R"({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters":
      {"binary_data_size": 12}}], "parameters": {"binary_data_output": true}}abcdefghijkl)"},
};

class Changes {
 public:
  explicit Changes(unsigned seed) : random_(seed) {}

  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }
  void change(std::string& text) {
    static constexpr std::array<std::string_view, 22> kWords = {"{",
                                                                "}",
                                                                "[",
                                                                "]",
                                                                ",",
                                                                ":",
                                                                "\"",
                                                                "\\u",
                                                                "-",
                                                                "0",
                                                                "1e999",
                                                                "-1",
                                                                "9223372036854775807",
                                                                "4611686018427387904",
                                                                "null",
                                                                "true",
                                                                "[[[[[[[[",
                                                                "\xff\xfe",
                                                                "{\"b64\":",
                                                                "2147483648",
                                                                "NaN",
                                                                "\n"};
    const size_t at = below(text.size() + 1), length = std::min(text.size() - at, below(12));
    switch (below(5)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, kWords[below(kWords.size())]); break;
      case 2: text.insert(below(text.size() + 1), text.substr(at, length)); break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      default: text.replace(at, length, kWords[below(kWords.size())]);
    }
  }

 private:
  std::mt19937 random_;
};

class HostileRequests : public testing::Test {
 protected:
  HostileRequests() {
    save_mix(folder / "mix"), save_judge(folder / "judge"), save_table(folder / "table");
    repository.emplace(
        std::vector<ModelSource>{
            {.folder = folder / "mix"}, {.folder = folder / "judge"}, {.folder = folder / "table"}},
        RepositoryOptions{}, metrics);
    api.emplace(*repository, metrics, ApiOptions{});
  }
  HttpResponse answer(HttpRequest request) {
    auto promise = std::make_shared<std::promise<HttpResponse>>();
    auto got = promise->get_future();
    api->handle(std::move(request), [promise](HttpResponse response) { promise->set_value(std::move(response)); });
    if (got.wait_for(60s) != std::future_status::ready) return {.status = 0};
    return got.get();
  }
  // Of an answer to anybody: a status that says whose fault it was, and JSON.
  void check(const HttpResponse& response, const std::string& request) {
    static const std::set<int> kFair = {200, 400, 401, 404, 405, 413, 415, 417, 431, 501, 505};
    EXPECT_TRUE(kFair.contains(response.status)) << response.status << ' ' << response.body << "\n for " << request;
    if (response.content_type != "application/json" || response.status == 200) return;
    JsonReader json(response.body, "the answer");
    EXPECT_NO_THROW(json.skip()) << response.body;
  }

  const TemporaryFolder folder;
  Metrics metrics;
  std::optional<ModelRepository> repository;
  std::optional<Api> api;
};

HttpRequest request_of(const std::string& path, const std::string& body) {
  HttpRequest request{.method = "POST", .path = path, .headers = {}, .body = body};
  if (const size_t binary = body.find("abcdefghijkl"); binary != std::string::npos)
    request.headers.emplace_back("inference-header-content-length", std::to_string(binary));
  return request;
}

TEST_F(HostileRequests, SoundOnesAreAnswered) {
  for (const auto& [path, body] : kSound) {
    const HttpResponse response = answer(request_of(path, body));
    EXPECT_EQ(response.status, 200) << path << ' ' << response.body;
  }
}

TEST_F(HostileRequests, ChangedBodiesAreAnsweredOrRefused) {
  Changes changes(1);
  int num_taken = 0, num_refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const auto& [path, sound] = kSound[changes.below(kSound.size())];
    std::string body = sound;
    for (size_t count = 1 + changes.below(4); count > 0; --count) changes.change(body);
    const HttpResponse response = answer(request_of(path, body));
    check(response, body);
    ++(response.status == 200 ? num_taken : num_refused);
  }
  EXPECT_GT(num_taken, 50);
  EXPECT_GT(num_refused, 50);
}

TEST_F(HostileRequests, ChangedHeadsAreAnsweredOrRefused) {
  Changes changes(2);
  for (int i = 0; i < 6000; ++i) {
    const auto& [path, body] = kSound[changes.below(kSound.size())];
    std::ostringstream text;
    text << "POST " << path << " HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: " << body.size()
         << "\r\nExpect: 100-continue\r\nContent-Encoding: identity\r\n";
    if (i % 2 == 0)
      text << "Content-Length: " << body.size() << "\r\n\r\n" << body;
    else
      text << "Transfer-Encoding: chunked\r\n\r\n1;x=y\r\n"
           << body.substr(0, 1) << "\r\n"
           << std::hex << body.size() - 1 << "\r\n"
           << body.substr(1) << "\r\n0\r\nA: b\r\n\r\n";
    std::string bytes = text.str();
    for (size_t count = 1 + changes.below(4); count > 0; --count) changes.change(bytes);
    HttpParser parser({.head_bytes = 1024, .body_bytes = 4096});
    parser.add(bytes);
    try {
      while (auto request = parser.next()) check(answer(std::move(*request)), bytes);
    } catch (const HttpError& error) {
      check(error_response(error.status(), error.what()), bytes);
    }
  }
}

TEST_F(HostileRequests, AContextForManyExamplesIsNoBomb) {
  std::string examples = R"({"a": 1, "b": 1})";
  for (int i = 0; i < 100; ++i) examples += R"(, {"a": 1, "b": 1})";
  const HttpResponse response =
      answer(request_of("/v1/models/mix:classify", R"({"examples": [)" + examples + R"(], "context": {"t": ")" +
                                                       std::string(1 << 20, 'a') + "\"}}"));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("the context is too large"), std::string::npos) << response.body;
}

}  // namespace
}  // namespace tutti::serving
