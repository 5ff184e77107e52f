#include "tutti/serving/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/http_client.h"
#include "tests/support/served_models.h"
#include "tests/support/temporary_folder.h"
#include "tutti/serving/content_coding.h"

namespace tutti::serving {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace tutti::testing_support;
using testing::AllOf;
using testing::HasSubstr;

class ServerTest : public testing::Test {
 protected:
  // Of the models that are there.
  void start(ServerOptions options = {}) {
    options.port = 0;
    options.poll_interval = 20ms;
    if (options.models.empty())
      for (const auto& entry : fs::directory_iterator(folder.path()))
        options.models.push_back({.folder = entry.path()});
    server = std::make_unique<Server>(options);
    client = std::make_unique<HttpClient>(server->port());
  }
  std::string answer(const std::string& path, const std::string& body) {
    const HttpAnswer answer = client->post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.body;
  }
  // "400 TEXT"
  std::string refusal(const std::string& path, const std::string& body, const std::string& headers = "") {
    const HttpAnswer answer = client->post(path, body, headers);
    return std::to_string(answer.status) + ' ' + answer.body;
  }
  static bool comes_true(const std::function<bool()>& what) {
    for (int i = 0; i < 1000; ++i) {
      if (what()) return true;
      std::this_thread::sleep_for(20ms);
    }
    return false;
  }

  const TemporaryFolder folder;
  std::unique_ptr<Server> server;
  std::unique_ptr<HttpClient> client;
};

TEST_F(ServerTest, PredictsRowsAndColumns) {
  save_double(folder / "double");
  start();
  EXPECT_EQ(answer("/v1/models/double:predict", R"({"instances": [[1, 2], [0.1, -3e2]]})"),
            "{\"predictions\": [[2.0, 4.0], [0.2, -600.0]]}\n");
  EXPECT_EQ(
      answer("/v1/models/double:predict", R"({"instances": [{"x": [1, 2]}], "signature_name": "serving_default"})"),
      "{\"predictions\": [[2.0, 4.0]]}\n");
  EXPECT_EQ(answer("/v1/models/double/versions/1:predict", R"({"inputs": [[1, 2]]})"), "{\"outputs\": [[2.0, 4.0]]}\n");
  EXPECT_EQ(answer("/v1/models/double:predict", R"({"inputs": {"x": [[NaN, Infinity]]}})"),
            "{\"outputs\": [[NaN, Infinity]]}\n");
  EXPECT_EQ(answer("/v1/models/double:predict", R"({"instances": []})"), "{\"predictions\": []}\n");
}

TEST_F(ServerTest, PredictsOfSeveralInputsAndText) {
  save_mix(folder / "mix");
  start();
  const std::string rows =
      R"({"instances": [{"a": 1, "b": [0.5], "t": "bad"}, {"t": {"b64": "Z29vZA=="}, "b": [2], "a": -7}]})";
  EXPECT_EQ(answer("/v1/models/mix:predict", rows),
            "{\"predictions\": [{\"ids\": 2, \"sum\": 1.5}, {\"ids\": 1, \"sum\": -5.0}]}\n");
  EXPECT_EQ(answer("/v1/models/mix:predict", R"({"inputs": {"a": [1], "b": [[1]], "t": ["none of them"]}})"),
            "{\"outputs\": {\"ids\": [0], \"sum\": [2.0]}}\n");
}

TEST_F(ServerTest, ClassifiesAndRegresses) {
  save_judge(folder / "judge");
  start();
  EXPECT_EQ(answer("/v1/models/judge:classify", R"({"examples": [{"x": [0.1, 0.2, 0.7]}]})"),
            "{\"result\": [[[\"\", 0.1], [\"\", 0.2], [\"\", 0.7]]]}\n");
  EXPECT_EQ(answer("/v1/models/judge:regress",
                   R"({"signature_name": "regress", "examples": [{}, {"x": [0, 0, 1]}], "context": {"x": [1, 2, 3]}})"),
            "{\"result\": [6.0, 1.0]}\n");
  EXPECT_THAT(refusal("/v1/models/judge:classify", R"({"signature_name": "regress", "examples": [{"x": [1, 2, 3]}]})"),
              HasSubstr("none of classification"));
}

TEST_F(ServerTest, SaysWhatThereIs) {
  save_double(folder / "double");
  start();
  EXPECT_EQ(client->get("/v1/models/double").body,
            "{\"model_version_status\": [{\"version\": \"1\", \"state\": \"AVAILABLE\", \"status\": {\"error_code\": "
            "\"OK\", \"error_message\": \"\"}}]}\n");
  EXPECT_THAT(client->get("/v1/models/double/metadata").body,
              HasSubstr("{\"x\": {\"dtype\": \"DT_FLOAT\", \"tensor_shape\": {\"dim\": [{\"size\": \"-1\", \"name\": "
                        "\"\"}, {\"size\": \"2\", \"name\": \"\"}], \"unknown_rank\": false}, \"name\": \"x\"}}"));
  EXPECT_THAT(client->get("/v2").body, HasSubstr("binary_tensor_data"));
  EXPECT_EQ(
      client->get("/v2/models/double").body,
      "{\"name\": \"double\", \"versions\": [\"1\"], \"platform\": \"tutti_saved_model\", \"inputs\": [{\"name\": "
      "\"x\", \"datatype\": \"FP32\", \"shape\": [-1, 2]}], \"outputs\": [{\"name\": \"y\", \"datatype\": "
      "\"FP32\", \"shape\": [-1, 2]}]}\n");
  for (const char* path : {"/v2/health/live", "/v2/health/ready", "/v2/models/double/ready"})
    EXPECT_EQ(client->get(path).status, 200) << path;
  for (const char* path : {"/", "/v1/models/other", "/v1/models/double/versions/2", "/v1/models/double/versions/x",
                           "/v1/models/double:guess", "/v2/models/other/ready"})
    EXPECT_EQ(client->get(path).status, 404) << path;
  EXPECT_EQ(client->get("/v1/models/double:predict").status, 405);
  EXPECT_EQ(client->post("/v1/models/double", "").status, 405);
}

TEST_F(ServerTest, InfersByTheOpenInferenceProtocol) {
  save_mix(folder / "mix");
  start();
  const std::string request =
      R"({"id": "7", "inputs": [{"name": "a", "shape": [2], "datatype": "INT64", "data": [1, 2]},
          {"data": [[0.5], [1]], "name": "b", "shape": [2, 1], "datatype": "FP32"},
          {"name": "t", "shape": [2], "datatype": "BYTES", "data": ["good", "bad"]}], "outputs": [{"name": "sum"}]})";
  EXPECT_EQ(answer("/v2/models/mix/infer", request),
            "{\"model_name\": \"mix\", \"model_version\": \"1\", \"id\": \"7\", \"outputs\": [{\"name\": \"sum\", "
            "\"datatype\": \"FP32\", \"shape\": [2], \"data\": [1.5, 3.0]}]}");
}

TEST_F(ServerTest, TakesAndGivesBinaryTensors) {
  save_mix(folder / "mix");
  start();
  const std::string head =
      R"({"inputs": [{"name": "a", "shape": [1], "datatype": "INT64", "parameters": {"binary_data_size": 8}},
          {"name": "b", "shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}},
          {"name": "t", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 8}}],
          "outputs": [{"name": "sum", "parameters": {"binary_data": true}}]})";
  const int64_t a = 40;
  const float b = 2;
  std::string body = head;
  body.append(reinterpret_cast<const char*>(&a), 8).append(reinterpret_cast<const char*>(&b), 4);
  body.append(std::string_view("\4\0\0\0good", 8));
  const std::string length = "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n";
  const HttpAnswer got = client->post("/v2/models/mix/infer", body, length);
  ASSERT_EQ(got.status, 200) << got.body;
  const size_t json = std::stoul(got.headers.at("Inference-Header-Content-Length"));
  ASSERT_EQ(got.body.size(), json + 4);
  float sum = 0;
  std::memcpy(&sum, got.body.data() + json, 4);
  EXPECT_EQ(sum, 42);
  EXPECT_THAT(refusal("/v2/models/mix/infer", body.substr(0, body.size() - 1), length), HasSubstr("7 bytes are left"));
  EXPECT_THAT(refusal("/v2/models/mix/infer", body + "x", length), HasSubstr("behind those of its inputs"));
  EXPECT_THAT(refusal("/v2/models/mix/infer", body, "Inference-Header-Content-Length: 99999\r\n"), HasSubstr("400"));
}

TEST_F(ServerTest, RefusesWrongInputsByTheirNames) {
  save_mix(folder / "mix"), save_double(folder / "double");
  start();
  const auto of_double = [&](const std::string& body) { return refusal("/v1/models/double:predict", body); };
  EXPECT_THAT(of_double(R"({"instances": [[1, 2, 3]]})"), HasSubstr("400 {\"error\": \"the input 'x' has more than 2"));
  EXPECT_THAT(of_double(R"({"instances": [[1]]})"), HasSubstr("the input 'x' has 1 values along axis 1 where 2"));
  EXPECT_THAT(of_double(R"({"instances": [1, 2]})"), HasSubstr("the input 'x' has no list where its axis 1"));
  EXPECT_THAT(of_double(R"({"instances": [[[1], 2]]})"), HasSubstr("the input 'x' has more axes"));
  EXPECT_THAT(of_double(R"({"instances": [["1", 2]]})"), HasSubstr("the input 'x' (float32 [unknown, 2])"));
  EXPECT_THAT(of_double(R"({"instances": [[1e39, 2]]})"), HasSubstr("the input 'x' has 1e+39, which does not fit"));
  EXPECT_THAT(of_double(R"({"instances": [[1e999, 2]]})"), HasSubstr("the input 'x'"));
  EXPECT_THAT(of_double(R"({"instances": [{"z": [1, 2]}]})"), HasSubstr("there is no input 'z'; there are [x]"));
  EXPECT_THAT(of_double(R"({"instances": [{}]})"), HasSubstr("lacks the input 'x'"));
  EXPECT_THAT(of_double(R"({"instances": [[1, 2]], "inputs": [[1, 2]]})"), HasSubstr("both"));
  EXPECT_THAT(of_double(R"({"instances": [[1, 2]]} x)"), HasSubstr("400"));
  EXPECT_THAT(of_double(R"({"signature_name": "f", "instances": [[1, 2]]})"), HasSubstr("404"));
  EXPECT_THAT(of_double("{}"), HasSubstr("neither"));
  const auto of_mix = [&](const std::string& body) { return refusal("/v1/models/mix:predict", body); };
  EXPECT_THAT(of_mix(R"({"instances": [{"a": 1.5, "b": [1], "t": "x"}]})"), HasSubstr("the input 'a'"));
  EXPECT_THAT(of_mix(R"({"instances": [{"a": 1, "b": [1], "t": 3}]})"), HasSubstr("the input 't'"));
  EXPECT_THAT(of_mix(R"({"instances": [{"a": 1, "b": [1], "t": {"b64": "?"}}]})"), HasSubstr("no base64"));
  EXPECT_THAT(of_mix(R"({"inputs": {"a": [1, 2], "b": [[1]], "t": ["x"]}})"), HasSubstr("rows"));
  const auto of_v2 = [&](const std::string& input) {
    return refusal("/v2/models/double/infer", R"({"inputs": [{"name": "x", )" + input + "}]}");
  };
  EXPECT_THAT(of_v2(R"("shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3])"),
              HasSubstr("the input 'x' has the shape"));
  EXPECT_THAT(of_v2(R"("shape": [1, 2], "datatype": "FP64", "data": [1, 2])"), HasSubstr("FP32 is required"));
  EXPECT_THAT(of_v2(R"("shape": [1, 2], "datatype": "FP32", "data": [1])"), HasSubstr("has 1 elements"));
  EXPECT_THAT(of_v2(R"("shape": [4611686018427387904, 2], "datatype": "FP32", "data": [1])"), HasSubstr("too many"));
  EXPECT_THAT(of_v2(R"("shape": [-1, 2], "datatype": "FP32", "data": [])"), HasSubstr("the input 'x'"));
  EXPECT_THAT(of_v2(R"("shape": [1, 2], "datatype": "FP32")"), HasSubstr("either data or"));
}

TEST_F(ServerTest, RefusesHostileSizesAndDepths) {
  save_double(folder / "double");
  start({.max_request_bytes = 1 << 20});
  const std::string path = "/v1/models/double:predict";
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += open;
    EXPECT_THAT(refusal(path, "{\"instances\": " + deep), HasSubstr("400"));
    EXPECT_THAT(refusal(path, "{\"signature_name\": " + deep), HasSubstr("400"));
    EXPECT_THAT(refusal(path, deep), HasSubstr("400"));
    EXPECT_THAT(refusal("/v2/models/double/infer", "{\"inputs\": " + deep), HasSubstr("400"));
    EXPECT_THAT(refusal("/v2/models/double/infer", "{\"parameters\": {\"p\": " + deep), HasSubstr("400"));
  }
  EXPECT_EQ(HttpClient(server->port()).post(path, std::string((1 << 20) + 1, ' ')).status, 413);
  EXPECT_EQ(client->post(path, R"({"instances": [[1, 2]]})").status, 200);
}

TEST_F(ServerTest, SaysThatAModelRefusesValues) {
  save_table(folder / "table");
  start();
  EXPECT_EQ(answer("/v1/models/table:predict", R"({"instances": [1, 0]})"),
            "{\"predictions\": [[3.0, 4.0], [1.0, 2.0]]}\n");
  EXPECT_THAT(refusal("/v1/models/table:predict", R"({"instances": [5]})"), HasSubstr("400"));
}

TEST_F(ServerTest, JoinsNoRowsThatDependOnOthers) {
  save_centred(folder / "centred"), save_double(folder / "double");
  std::vector<std::string> lines;
  start({.log = [&](const std::string& line) { lines.push_back(line); }});
  EXPECT_THAT(lines,
              testing::Contains(HasSubstr("centred, version 1, 'serving_default': requests are not joined: a row")));
  EXPECT_THAT(lines, testing::Not(testing::Contains(HasSubstr("double, version"))));
  EXPECT_EQ(answer("/v1/models/centred:predict", R"({"instances": [1, 3]})"), "{\"predictions\": [-1.0, 1.0]}\n");
}

TEST_F(ServerTest, AsksForItsToken) {
  save_double(folder / "double");
  start({.token = "secret"});
  EXPECT_EQ(client->get("/v1/models/double").status, 401);
  EXPECT_EQ(client->get("/metrics").status, 401);
  EXPECT_EQ(client->request("GET", "/v1/models/double", "", "Authorization: Bearer secres\r\n").status, 401);
  EXPECT_EQ(client->request("GET", "/v1/models/double", "", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(client->get("/v2/health/live").status, 200);
}

TEST_F(ServerTest, CountsForPrometheus) {
  save_double(folder / "double");
  start();
  answer("/v1/models/double:predict", R"({"instances": [[1, 2], [3, 4]]})");
  client->get("/v1/models/stranger");
  const std::string text = client->get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("tutti_serving_requests_total{model=\"double\",method=\"predict\",status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tutti_serving_batched_rows_total{model=\"double\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tutti_serving_request_seconds_count{model=\"double\"} 1\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("stranger")));
}

TEST_F(ServerTest, SpeaksToClientsThatWaitToBeAsked) {
  save_double(folder / "double");
  start();
  const std::string body = R"({"instances": [[1, 2]]})";
  client->send("POST /v1/models/double:predict HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n");
  std::this_thread::sleep_for(50ms);
  client->send(body);
  EXPECT_EQ(client->receive().status, 200);
  client->send(
      "GET /v2 HTTP/1.1\r\nHost: a\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client->receive().body, HasSubstr("extensions"));
  EXPECT_THAT(client->receive().body, HasSubstr("live"));
  EXPECT_TRUE(client->is_closed());
}

TEST_F(ServerTest, TakesChunkedAndCompressedRequestsAndGivesCompressedAnswers) {
  save_double(folder / "double");
  start({.max_request_bytes = 100'000});
  const std::string path = "/v1/models/double:predict", body = R"({"instances": [[1, 2]]})";
  const std::string doubled = "{\"predictions\": [[2.0, 4.0]]}\n";
  ASSERT_TRUE(client->send("POST " + path + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n" +
                           body.substr(0, 10) + "\r\n"));
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(client->send("d\r\n" + body.substr(10) + "\r\n0\r\n\r\n"));
  EXPECT_EQ(client->receive().body, doubled);

  HttpResponse compressed{.body = body + std::string(2000, ' ')};
  encode_by_gzip(compressed);
  const std::string gzip = "Content-Encoding: gzip\r\n";
  EXPECT_EQ(client->post(path, compressed.body, gzip).body, doubled);
  HttpResponse bomb{.body = body + std::string(200'000, ' ')};
  encode_by_gzip(bomb);
  EXPECT_THAT(refusal(path, bomb.body, gzip), HasSubstr("413"));
  EXPECT_THAT(refusal(path, body, gzip), HasSubstr("400"));
  EXPECT_THAT(refusal(path, body, "Content-Encoding: br\r\n"), HasSubstr("415"));

  std::string many = R"({"instances": [[1, 2])";
  for (int i = 0; i < 1000; ++i) many += ", [1, 2]";
  const std::string plain = answer(path, many + "]}");
  HttpAnswer answer = client->post(path, many + "]}", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(answer.headers["Content-Encoding"], "gzip");
  EXPECT_LT(answer.body.size(), plain.size() / 10);
  HttpRequest other_way{.headers = {{"content-encoding", "gzip"}}, .body = answer.body};
  decode_body(other_way, 1 << 20);
  EXPECT_EQ(other_way.body, plain);
}

TEST_F(ServerTest, BoundsWhatAllRequestsAreCompressedFrom) {
  save_double(folder / "double");
  start({.max_bytes = 100'000});
  const std::string path = "/v1/models/double:predict", body = R"({"instances": [[1, 2]]})";
  const std::string gzip = "Content-Encoding: gzip\r\n";
  for (int i = 0; i < 3; ++i) {  // what came out of a request goes with its answer
    HttpResponse small{.body = body + std::string(60'000, ' ')}, large{.body = body + std::string(200'000, ' ')};
    encode_by_gzip(small);
    encode_by_gzip(large);
    EXPECT_THAT(refusal(path, large.body, gzip), AllOf(HasSubstr("503"), HasSubstr("compressed from")));
    HttpAnswer answer = client->post(path, small.body, gzip);
    for (int tries = 0; answer.status == 503 && tries < 500; ++tries) {  // right behind the answer before
      std::this_thread::sleep_for(10ms);
      answer = client->post(path, small.body, gzip);
    }
    EXPECT_EQ(answer.body, "{\"predictions\": [[2.0, 4.0]]}\n");
  }
}

TEST_F(ServerTest, ServesTheNewestVersionThatCanBeLoaded) {
  const CollectedWarnings warnings;
  save_double(folder / "models/1", 1), save_double(folder / "models/2", 2);
  folder.write("models/3/saved_model.json", "not one");
  start({.models = {{.name = "m", .folder = folder / "models"}}});
  EXPECT_EQ(answer("/v1/models/m:predict", R"({"instances": [[1, 1]]})"), "{\"predictions\": [[2.0, 2.0]]}\n");
  EXPECT_EQ(client->post("/v1/models/m/versions/1:predict", "").status, 404);
  EXPECT_THAT(client->get("/v1/models/m").body,
              HasSubstr("\"version\": \"3\", \"state\": \"END\", \"status\": {\"error_code\": \"DATA_LOSS\""));
  EXPECT_THAT(warnings.lines(), testing::Contains(HasSubstr("m: version 3 can't be loaded")));
}

// Requests in a loop, on a connection for each thread, while something happens; how many had no right answer. A request
// that a slow thread sends late, to a server that ends, may find its connection closed: HTTP has its clients know that.
template <class F>
int lost_during(int port, std::atomic<int>& num_answered, F what) {
  std::atomic<bool> is_over = false;
  std::atomic<int> num_lost = 0;
  std::deque<HttpClient> connections;  // all are there before the server ends
  for (int i = 0; i < 4; ++i) connections.emplace_back(port);
  std::vector<std::thread> clients;
  for (HttpClient& own : connections)
    clients.emplace_back([&] {
      for (auto last = std::chrono::steady_clock::now(); !is_over; last = std::chrono::steady_clock::now()) {
        const HttpAnswer got = own.post("/v1/models/m:predict", R"({"instances": [[1, 1]]})");
        if (got.status == 0 && std::chrono::steady_clock::now() - last > 500ms) return;
        got.status == 200 && got.body.starts_with("{\"predictions\": [[") ? ++num_answered : ++num_lost;
        if (got.headers.contains("Connection")) return;  // the server ends
      }
    });
  what();
  is_over = true;
  for (std::thread& client : clients) client.join();
  return num_lost;
}

TEST_F(ServerTest, LosesNothingWhenAVersionComes) {
  save_double(folder / "models/1", 1);
  start({.models = {{.name = "m", .folder = folder / "models"}}});
  std::atomic<int> num_answered = 0;
  const int lost = lost_during(server->port(), num_answered, [&] {
    for (int version = 2; version <= 5; ++version) {
      save_double(folder / "models" / std::to_string(version), version);
      const std::string expected =
          "{\"predictions\": [[" + std::to_string(version) + ".0, " + std::to_string(version) + ".0]]}\n";
      EXPECT_TRUE(comes_true(
          [&] { return client->post("/v1/models/m:predict", R"({"instances": [[1, 1]]})").body == expected; }));
    }
  });
  EXPECT_EQ(lost, 0);
  EXPECT_GT(num_answered, 0);
}

TEST_F(ServerTest, TakesAModelThatIsSavedAnewInItsPlace) {
  save_double(folder / "double", 2);
  start();
  EXPECT_EQ(answer("/v1/models/double:predict", R"({"instances": [[1, 1]]})"), "{\"predictions\": [[2.0, 2.0]]}\n");
  save_double(folder / "double", 3);
  EXPECT_TRUE(comes_true([&] {
    return answer("/v1/models/double:predict", R"({"instances": [[1, 1]]})") == "{\"predictions\": [[3.0, 3.0]]}\n";
  }));
}

TEST_F(ServerTest, GoesOnWhenItsFoldersAreGone) {
  save_double(folder / "double");
  start();
  fs::remove_all(folder / "double");
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(answer("/v1/models/double:predict", R"({"instances": [[1, 1]]})"), "{\"predictions\": [[2.0, 2.0]]}\n");
}

TEST_F(ServerTest, LosesNothingWhenItEnds) {
  save_double(folder / "m");
  start();
  std::atomic<int> num_answered = 0;
  bool all_answered = false;
  const int lost = lost_during(server->port(), num_answered, [&] {
    EXPECT_TRUE(comes_true([&] { return num_answered > 20; }));
    all_answered = server->stop();
  });
  EXPECT_TRUE(all_answered);
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(client->is_closed());
  EXPECT_ANY_THROW(HttpClient(server->port()));
}

TEST_F(ServerTest, AnswersBeyondItsConnectionsAreRefused) {
  save_double(folder / "double");
  start({.max_connections = 2});
  EXPECT_EQ(client->get("/v2").status, 200);
  HttpClient second(server->port());
  EXPECT_EQ(second.get("/v2").status, 200);
  EXPECT_EQ(HttpClient(server->port()).receive().status, 503);
  EXPECT_EQ(second.get("/v2").status, 200);
}

TEST_F(ServerTest, RefusesWhatItCannotServe) {
  const auto error = [&](std::vector<ServedFolder> models) {
    return error_of([&] { Server({.models = std::move(models), .port = 0}); });
  };
  EXPECT_THAT(error({}), HasSubstr("invalid_argument: serving: there is no model"));
  EXPECT_THAT(error({{.folder = folder / "nothing"}}), HasSubstr("not_found"));
  save_double(folder / "double");
  EXPECT_THAT(error({{.folder = folder / "double"}, {.folder = folder / "double"}}), HasSubstr("two models"));
  EXPECT_THAT(error({{.name = "a/b", .folder = folder / "double"}}), HasSubstr("can't have the name"));
  folder.write("double/variables.safetensors", "damaged");
  EXPECT_THAT(error({{.folder = folder / "double"}}), HasSubstr("data_loss"));
}

}  // namespace
}  // namespace tutti::serving
