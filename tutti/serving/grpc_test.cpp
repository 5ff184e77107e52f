// The Open Inference Protocol over gRPC, by messages that are written field by field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/grpc_client.h"
#include "tests/support/http_client.h"
#include "tests/support/protobuf_bytes.h"
#include "tests/support/served_models.h"
#include "tests/support/temporary_folder.h"
#include "tutti/serving/rpc/grpc_server.h"
#include "tutti/serving/server.h"

namespace tutti::serving {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace tutti::testing_support;
using namespace tutti::testing_support::protobuf_bytes;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Fields of the protocol's messages.
enum Contents : uint32_t { kInts = 2, kInt64s = 3, kFp32s = 6, kTexts = 8 };
std::string tensor(const std::string& name, const std::string& datatype, const std::vector<int64_t>& shape,
                   const std::string& contents = "") {
  return part(1, name) + part(2, datatype) + packed(3, shape) + (contents.empty() ? "" : part(5, contents));
}
std::string input(const std::string& tensor) { return part(5, tensor); }
std::string raw_input(const std::string& bytes) { return part(7, bytes); }
std::string of_double(const std::string& inputs) { return part(1, "double") + inputs; }
const std::string kRawDouble = of_double(input(tensor("x", "FP32", {1, 2})) + raw_input(bytes_of<float>({1, -2.5})));
const std::string kRawDoubled =
    part(1, "double") + part(2, "1") + part(5, tensor("y", "FP32", {1, 2})) + part(6, bytes_of<float>({2, -5}));

class GrpcTest : public testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    options.port = 0, options.grpc_port = 0;
    if (options.models.empty())
      for (const auto& entry : fs::directory_iterator(folder.path()))
        options.models.push_back({.folder = entry.path()});
    server = std::make_unique<Server>(options);
    client = std::make_unique<GrpcClient>(server->grpc_port());
  }
  std::string answer(const std::string& method, const std::string& message) {
    const GrpcAnswer answer = client->call(method, message);
    EXPECT_EQ(to_string(answer.code), "OK") << answer.error;
    return answer.message;
  }
  void TearDown() override {
    if (server) server->stop(0ms);  // without the second that others would have to call in
  }
  // "NOT_FOUND text"
  std::string refusal(const std::string& method, const std::string& message) {
    const GrpcAnswer answer = client->call(method, message);
    return std::string(to_string(answer.code)) + ' ' + answer.error;
  }

  const TemporaryFolder folder;
  std::unique_ptr<Server> server;
  std::unique_ptr<GrpcClient> client;
};

TEST_F(GrpcTest, InfersRawContents) {
  save_double(folder / "double");
  start();
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
  EXPECT_EQ(answer("ModelInfer", kRawDouble + part(2, "1") + part(3, "an id") + part(6, part(1, "y"))),
            part(1, "double") + part(2, "1") + part(3, "an id") + part(5, tensor("y", "FP32", {1, 2})) +
                part(6, bytes_of<float>({2, -5})));
}

TEST_F(GrpcTest, InfersTypedContentsAndAnswersInTheirForm) {
  save_mix(folder / "mix");
  start();
  const std::string texts = part(kTexts, "good") + part(kTexts, "bad");
  const std::string request = part(1, "mix") + input(tensor("t", "BYTES", {2}, texts)) +
                              input(tensor("a", "INT64", {2}, packed(kInt64s, {40, -7}))) +
                              input(tensor("b", "FP32", {2, 1}, part(kFp32s, bytes_of<float>({2, 0.5}))));
  EXPECT_EQ(answer("ModelInfer", request),
            part(1, "mix") + part(2, "1") + part(5, tensor("ids", "INT64", {2}, packed(kInt64s, {1, 2}))) +
                part(5, tensor("sum", "FP32", {2}, part(kFp32s, bytes_of<float>({42, -6.5})))));
  const std::string raw_texts = std::string("\4\0\0\0good\3\0\0\0bad", 15);
  const std::string raw_request = part(1, "mix") + input(tensor("t", "BYTES", {2})) + input(tensor("a", "INT64", {2})) +
                                  input(tensor("b", "FP32", {2, 1})) + part(6, part(1, "sum")) + raw_input(raw_texts) +
                                  raw_input(bytes_of<int64_t>({40, -7})) + raw_input(bytes_of<float>({2, 0.5}));
  EXPECT_EQ(answer("ModelInfer", raw_request),
            part(1, "mix") + part(2, "1") + part(5, tensor("sum", "FP32", {2})) + part(6, bytes_of<float>({42, -6.5})));
}

TEST_F(GrpcTest, CallsTheSignatureThatIsNamed) {
  save_judge(folder / "judge");
  start();
  const std::string parameter = part(4, part(1, "signature_name") + part(2, part(3, "regress")));
  EXPECT_EQ(answer("ModelInfer", part(1, "judge") + parameter + input(tensor("x", "FP32", {1, 3})) +
                                     raw_input(bytes_of<float>({1, 2, 3}))),
            part(1, "judge") + part(2, "1") + part(5, tensor("outputs", "FP32", {1})) + part(6, bytes_of<float>({6})));
}

TEST_F(GrpcTest, SaysWhatThereIs) {
  save_double(folder / "double");
  start();
  for (const char* method : {"ServerLive", "ServerReady"}) EXPECT_EQ(answer(method, ""), number(1, 1)) << method;
  EXPECT_THAT(answer("ServerMetadata", ""), StartsWith(part(1, "tutti")));
  EXPECT_EQ(answer("ModelReady", part(1, "double")), number(1, 1));
  EXPECT_EQ(answer("ModelReady", part(1, "double") + part(2, "1")), number(1, 1));
  EXPECT_EQ(answer("ModelReady", part(1, "double") + part(2, "2")), "");
  EXPECT_EQ(answer("ModelReady", part(1, "other")), "");
  EXPECT_EQ(answer("ModelMetadata", part(1, "double")),
            part(1, "double") + part(2, "1") + part(3, "tutti_saved_model") + part(4, tensor("x", "FP32", {-1, 2})) +
                part(5, tensor("y", "FP32", {-1, 2})));
  EXPECT_THAT(refusal("ModelMetadata", part(1, "other")), HasSubstr("NOT_FOUND there is no model 'other'"));
  EXPECT_THAT(refusal("ModelMetadata", part(1, "double") + part(2, "x")), HasSubstr("INVALID_ARGUMENT the version"));
  EXPECT_THAT(refusal("ModelConfig", part(1, "double")), HasSubstr("UNIMPLEMENTED there is no method"));
}

TEST_F(GrpcTest, RefusesWrongInputsByTheirNames) {
  save_double(folder / "double"), save_mix(folder / "mix"), save_table(folder / "table");
  start();
  const auto refused = [&](const std::string& message) { return refusal("ModelInfer", message); };
  const std::string two = bytes_of<float>({1, 2});
  EXPECT_THAT(refused(part(1, "other")), HasSubstr("NOT_FOUND there is no model 'other'"));
  EXPECT_THAT(refused(of_double("")), HasSubstr("the input 'x' is missing"));
  EXPECT_THAT(refused(of_double(input(tensor("z", "FP32", {1, 2})) + raw_input(two))),
              HasSubstr("INVALID_ARGUMENT there is no input 'z'"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP64", {1, 2})) + raw_input(two))), HasSubstr("FP32 is required"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {1, 3})) + raw_input(two))), HasSubstr("has the shape"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", std::vector<int64_t>(1000, 1))) + raw_input(two))),
              HasSubstr("has the shape 1000 axes"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {2, 2})) + raw_input(two))), HasSubstr("has 8 bytes"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {int64_t{1} << 62, 2})) + raw_input(two))),
              HasSubstr("too many"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {-1, 2})) + raw_input(two))), HasSubstr("the input 'x'"));
  EXPECT_THAT(refused(kRawDouble + raw_input(two)), HasSubstr("1 inputs and 2 raw_input_contents"));
  EXPECT_THAT(refused(kRawDouble + kRawDouble), HasSubstr("the input 'x' comes twice"));
  EXPECT_THAT(refused(kRawDouble + part(6, part(1, "z"))), HasSubstr("NOT_FOUND there is no output 'z'"));
  EXPECT_THAT(refused(kRawDouble + part(6, part(1, "y")) + part(6, part(1, "y"))), HasSubstr("asked for twice"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {1, 2}, part(kFp32s, two))) + raw_input(two))),
              HasSubstr("one of them only"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {1, 2}, packed(kInts, {1, 2}))))),
              HasSubstr("not those of its datatype FP32"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP16", {1, 2}, packed(kInts, {1, 2}))))),
              HasSubstr("read from raw_input_contents alone"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "INT8", {1, 2}, packed(kInts, {1, 200}))))),
              HasSubstr("200, which does not fit"));
  EXPECT_THAT(refused(of_double(input(tensor("x", "FP32", {1, 2}) + part(4, part(1, "shared_memory_region"))))),
              HasSubstr("shared memory"));
  EXPECT_THAT(refused(part(1, "mix") + input(tensor("t", "BYTES", {1})) + raw_input("\xff\xff\xff\xff")),
              HasSubstr("ends in the middle of a text"));
  EXPECT_THAT(refused(part(1, "table") + input(tensor("ids", "INT64", {1}, packed(kInt64s, {5})))),
              HasSubstr("INVALID_ARGUMENT the model refuses these inputs"));
  EXPECT_THAT(refused("no message"), HasSubstr("INVALID_ARGUMENT the message is no ModelInferRequest"));
  const GrpcAnswer long_error = client->call("ModelInfer", part(1, std::string(100'000, 'm')));
  EXPECT_EQ(long_error.code, GrpcCode::not_found);
  EXPECT_LE(long_error.error.size(), 1024U);
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
}

// Two bytes of a message can be a hundred in memory.
TEST_F(GrpcTest, CountsWhatAMessageHasBeforeMakingIt) {
  save_double(folder / "double");
  start();
  for (const uint32_t field : {4U, 5U, 6U, 7U}) {
    std::string parts;
    for (int i = 0; i < 2'000'000; ++i) parts += part(field, "");
    EXPECT_THAT(refusal("ModelInfer", of_double(parts)), HasSubstr("INVALID_ARGUMENT the request has more than"))
        << field;
  }
  std::string texts;
  for (int i = 0; i < 2'000'000; ++i) texts += part(kTexts, "");
  EXPECT_THAT(refusal("ModelInfer", of_double(input(tensor("x", "BYTES", {2'000'000}, texts)))),
              HasSubstr("more than"));
}

TEST_F(GrpcTest, ChangedMessagesAreAnsweredOrRefused) {
  save_mix(folder / "mix");
  start();
  const std::string sound = part(1, "mix") + part(2, "1") + part(3, "id") + input(tensor("a", "INT64", {1})) +
                            input(tensor("b", "FP32", {1, 1})) + input(tensor("t", "BYTES", {1})) +
                            part(6, part(1, "sum")) + raw_input(bytes_of<int64_t>({1})) +
                            raw_input(bytes_of<float>({1})) + raw_input(std::string("\4\0\0\0good", 8));
  std::mt19937 random(1);
  const auto below = [&](size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random); };
  int num_taken = 0, num_refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string message = sound;
    for (size_t count = 1 + below(3); count > 0; --count) {
      const size_t at = below(message.size());
      switch (below(4)) {
        case 0: message[at] = static_cast<char>(below(256)); break;
        case 1: message.erase(at, below(8)); break;
        case 2: message.insert(at, message.substr(below(message.size()), below(16))); break;
        default: message.insert(at, varint(uint64_t{1} << below(64)));
      }
      if (message.empty()) message = "\n";
    }
    const GrpcAnswer got = client->call("ModelInfer", message);
    const bool is_fair =
        got.code == GrpcCode::ok || got.code == GrpcCode::invalid_argument || got.code == GrpcCode::not_found;
    EXPECT_TRUE(is_fair) << to_string(got.code) << ' ' << got.error << " for " << testing::PrintToString(message);
    ++(got.code == GrpcCode::ok ? num_taken : num_refused);
  }
  EXPECT_GT(num_taken, 20);
  EXPECT_GT(num_refused, 20);
}

TEST_F(GrpcTest, AsksForItsToken) {
  save_double(folder / "double");
  start({.token = "secret"});
  const auto code = [&](const std::string& method, const std::string& message, const std::string& authorization) {
    GrpcClient::Options options;
    if (!authorization.empty()) options.metadata = {{"authorization", authorization}};
    return to_string(client->call(method, message, options).code);
  };
  EXPECT_EQ(code("ModelInfer", kRawDouble, ""), "UNAUTHENTICATED");
  EXPECT_EQ(code("ModelReady", part(1, "double"), ""), "UNAUTHENTICATED");
  EXPECT_EQ(code("ModelInfer", kRawDouble, "Bearer secres"), "UNAUTHENTICATED");
  EXPECT_EQ(code("ModelInfer", kRawDouble, "secret"), "UNAUTHENTICATED");
  EXPECT_EQ(code("ModelInfer", kRawDouble, "Bearer secret"), "OK");
  EXPECT_EQ(code("ServerLive", "", ""), "OK");
}

TEST_F(GrpcTest, CountsForPrometheus) {
  save_double(folder / "double");
  start();
  answer("ModelInfer", kRawDouble);
  refusal("ModelInfer", of_double(""));
  refusal("ModelInfer", part(1, "stranger"));
  refusal("Strange", "");
  const std::string text = HttpClient(server->port()).get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("_requests_total{model=\"double\",method=\"ModelInfer\",status=\"OK\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("_requests_total{model=\"double\",method=\"ModelInfer\",status=\"INVALID_ARGUMENT\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("_requests_total{model=\"\",method=\"\",status=\"NOT_FOUND\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("_requests_total{model=\"\",method=\"\",status=\"UNIMPLEMENTED\"} 1\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("trange")));
}

TEST_F(GrpcTest, SharesCallsWithHttp) {
  save_double(folder / "double");
  start({.max_batch = 2, .batch_delay = 20s});
  auto by_http = std::async(std::launch::async, [&] {
    return HttpClient(server->port()).post("/v1/models/double:predict", R"({"instances": [[3, 4]]})").body;
  });
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
  EXPECT_EQ(by_http.get(), "{\"predictions\": [[6.0, 8.0]]}\n");
  EXPECT_THAT(HttpClient(server->port()).get("/metrics").body, HasSubstr("_batches_total{model=\"double\"} 1\n"));
}

TEST_F(GrpcTest, BoundsMessages) {
  save_double(folder / "double");
  start({.max_request_bytes = 1 << 20});
  const auto of_bytes = [](size_t size) { return part(1, "double") + raw_input(std::string(size, 'a')); };
  EXPECT_THAT(refusal("ModelInfer", of_bytes((1 << 20) - 100)), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(refusal("ModelInfer", of_bytes(1 << 20)), HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
}

// --- Compressed messages.

// Of so many rows of two zeros.
std::string zeros_double(int64_t rows) {
  return of_double(input(tensor("x", "FP32", {rows, 2})) + raw_input(std::string(static_cast<size_t>(rows) * 8, '\0')));
}

TEST_F(GrpcTest, TakesCompressedMessagesAndCompressesTheirAnswers) {
  save_double(folder / "double");
  start({});
  const std::string message = zeros_double(2000);
  const std::string expected = answer("ModelInfer", message);
  GrpcClient raw = GrpcClient::that_inflates_nothing(server->grpc_port());
  EXPECT_EQ(raw.call("ModelInfer", message).message, expected);  // nobody asked for less
  for (const auto compression : {Compression::gzip, Compression::deflate}) {
    const GrpcAnswer inflated_answer = client->call("ModelInfer", message, {.compression = compression});
    EXPECT_EQ(inflated_answer.code, GrpcCode::ok) << inflated_answer.error;
    EXPECT_EQ(inflated_answer.message, expected);
    const std::string packed = raw.call("ModelInfer", message, {.compression = compression}).message;
    EXPECT_LT(packed.size(), expected.size() / 10);
    EXPECT_EQ(inflated(packed, packed.starts_with('\x1f') ? Compression::gzip : Compression::deflate, 1 << 20),
              expected);
    EXPECT_EQ(client->call("ModelInfer", kRawDouble, {.compression = compression}).message, kRawDoubled);
    EXPECT_EQ(client->call("ServerLive", std::string(500, '\0'), {.compression = compression}).message,
              answer("ServerLive", ""));
  }
}

TEST_F(GrpcTest, BoundsWhatMessagesAreCompressedFrom) {
  save_double(folder / "double");
  start({.max_request_bytes = 1 << 20});
  const auto refusal_of = [&](int64_t rows) {
    const GrpcAnswer got = client->call("ModelInfer", zeros_double(rows), {.compression = Compression::gzip});
    return std::string(to_string(got.code)) + ' ' + got.error;
  };
  EXPECT_THAT(refusal_of(100'000), HasSubstr("OK"));
  EXPECT_THAT(refusal_of(200'000), AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("1048576 bytes that are allowed")));
  EXPECT_THAT(refusal_of(30'000'000), HasSubstr("RESOURCE_EXHAUSTED"));  // 240 MB in 230 KB
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
}

TEST_F(GrpcTest, BoundsWhatAllAreCompressedFrom) {
  save_double(folder / "double");
  start({.max_batch = 100'000, .batch_delay = 2s, .max_bytes = 1'000'000});
  const std::string message = zeros_double(75'000);  // 600 KB in a few
  auto waiting = std::async(
      std::launch::async, [&] { return client->call("ModelInfer", message, {.compression = Compression::gzip}).code; });
  std::this_thread::sleep_for(500ms);
  const GrpcAnswer second = client->call("ModelInfer", message, {.compression = Compression::deflate});
  EXPECT_EQ(second.code, GrpcCode::unavailable) << second.error;
  EXPECT_THAT(second.error, HasSubstr("compressed from"));
  EXPECT_EQ(waiting.get(), GrpcCode::ok);
  EXPECT_EQ(client->call("ModelInfer", message, {.compression = Compression::gzip}).code, GrpcCode::ok);
}

TEST_F(GrpcTest, InflatesNothingWithoutTheToken) {
  save_double(folder / "double");
  start({.token = "secret", .max_request_bytes = 1 << 20});
  const GrpcAnswer refused = client->call("ModelInfer", zeros_double(200'000), {.compression = Compression::gzip});
  EXPECT_EQ(refused.code, GrpcCode::unauthenticated) << refused.error;
}

TEST_F(GrpcTest, BoundsTheBytesOfAllCalls) {
  save_double(folder / "double");
  start({.max_bytes = 1000});
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
  EXPECT_THAT(refusal("ModelInfer", of_double(raw_input(std::string(2000, 'a')))), HasSubstr("UNAVAILABLE no memory"));
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
}

TEST_F(GrpcTest, ARequestThatWaitsForTooLongIsRefused) {
  save_double(folder / "double");
  start({.max_batch = 100, .batch_delay = 500ms});
  const GrpcAnswer late = client->call("ModelInfer", kRawDouble, {.timeout = 50ms});
  EXPECT_EQ(late.code, GrpcCode::deadline_exceeded) << late.error;
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
  const std::string text = HttpClient(server->port()).get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("_batched_requests_total{model=\"double\"} 1\n"));  // the late one was not computed
}

TEST_F(GrpcTest, MoreThanTheQueueHoldsIsRefused) {
  save_double(folder / "double");
  start({.max_batch = 8, .batch_delay = 500ms, .max_queued = 1});
  auto first = std::async(std::launch::async, [&] { return client->call("ModelInfer", kRawDouble); });
  std::this_thread::sleep_for(100ms);
  EXPECT_THAT(refusal("ModelInfer", kRawDouble), HasSubstr("RESOURCE_EXHAUSTED 1 requests wait already"));
  EXPECT_EQ(first.get().message, kRawDoubled);
}

TEST_F(GrpcTest, OutlivesClientsThatGoAway) {
  save_double(folder / "double");
  start({.max_batch = 100, .batch_delay = 200ms});
  for (int i = 0; i < 5; ++i) GrpcClient(server->grpc_port()).call_and_leave("ModelInfer", kRawDouble);
  EXPECT_EQ(answer("ModelInfer", kRawDouble), kRawDoubled);
}

TEST_F(GrpcTest, APortThatIsTakenIsAnError) {
  save_double(folder / "double");
  start();
  const std::string error = error_of(
      [&] { Server({.models = {{.folder = folder / "double"}}, .port = 0, .grpc_port = server->grpc_port()}); });
  EXPECT_THAT(error, HasSubstr(std::to_string(server->grpc_port())));
  EXPECT_THAT(error_of([&] { Server({.models = {{.folder = folder / "double"}}, .port = 0, .grpc_port = 65536}); }),
              HasSubstr("the port is 65536"));
}

// Calls that come while a server ends may be refused, and are then not computed: gRPC's clients may repeat them.
TEST_F(GrpcTest, LosesNothingWhenItEnds) {
  save_double(folder / "double");
  start({.max_batch = 4, .batch_delay = 1ms});
  std::atomic<int> num_answered = 0, num_lost = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      GrpcClient own(server->grpc_port());
      while (true) {
        const GrpcAnswer got = own.call("ModelInfer", kRawDouble);
        if (got.code == GrpcCode::unavailable) return;
        got.message == kRawDoubled ? ++num_answered : ++num_lost;
        if (got.code != GrpcCode::ok) ADD_FAILURE() << to_string(got.code) << ' ' << got.error;
      }
    });
  while (num_answered < 200) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(server->stop());
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(num_lost, 0);
}

class GrpcServerTest : public testing::Test {
 protected:
  static void never(const GrpcCall&, const GrpcReply&) {}
};

TEST_F(GrpcServerTest, ASlowClientIsTold) {
  GrpcServer server({.receive_timeout = 300ms}, never);
  GrpcClient client(server.port());
  const GrpcAnswer slow = client.call_without_message(20s);
  EXPECT_EQ(slow.code, GrpcCode::deadline_exceeded);
  EXPECT_EQ(slow.error, "the request did not arrive in time");
}

// A frame of HTTP/2.
std::string frame(uint8_t type, uint8_t flags, uint8_t stream, const std::string& payload) {
  const size_t size = payload.size();
  return std::string({static_cast<char>(size >> 16), static_cast<char>(size >> 8), static_cast<char>(size),
                      static_cast<char>(type), static_cast<char>(flags), 0, 0, 0, static_cast<char>(stream)}) +
         payload;
}

// A header, without indices and Huffman's codes.
std::string header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
}

// As a client that means ill writes it: a message is announced with a length, and never comes whole.
std::string call_with_a_length(uint32_t length, const std::string& begin) {
  constexpr uint8_t kData = 0, kHeaders = 1, kSettings = 4, kEndHeaders = 4;
  std::string prefix(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) prefix += static_cast<char>(length >> shift);
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "") +
         frame(kHeaders, kEndHeaders, 1,
               header(":method", "POST") + header(":scheme", "http") + header(":authority", "a") +
                   header(":path", "/inference.GRPCInferenceService/ModelInfer") +
                   header("content-type", "application/grpc") + header("te", "trailers")) +
         frame(kData, 0, 1, prefix + begin);
}

TEST_F(GrpcServerTest, AHalfMessageIsEnded) {
  GrpcServer server({.receive_timeout = 300ms}, never);
  HttpClient half(server.port());
  ASSERT_TRUE(half.send(call_with_a_length(0xfffffff0U, "some of it")));
  const std::string seen = half.receive_until("the request did not arrive in time");
  EXPECT_THAT(seen, HasSubstr("the request did not arrive in time"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(server.stop(60s));  // though this client stays
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST_F(GrpcServerTest, WhatIsNoHttp2EndsItsConnectionAlone) {
  GrpcServer server({}, [](const GrpcCall& call, const GrpcReply& reply) { reply({.message = call.message}); });
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), std::string(100'000, '\xff')}) {
    HttpClient stranger(server.port());
    stranger.send(bytes);
    EXPECT_TRUE(stranger.is_closed_after_what_it_says());
  }
  EXPECT_EQ(GrpcClient(server.port()).call("ModelInfer", "x").message, "x");
}

TEST_F(GrpcServerTest, AHandlerThatForgetsIsTold) {
  GrpcServer server({}, never);
  const GrpcAnswer forgotten = GrpcClient(server.port()).call("ModelInfer", "x");
  EXPECT_EQ(forgotten.code, GrpcCode::internal);
  EXPECT_THAT(forgotten.error, HasSubstr("dropped"));
}

TEST_F(GrpcServerTest, AHandlerThatTakesTooLongIsTold) {
  std::vector<GrpcReply> kept;
  GrpcServer server({.answer_timeout = 200ms},
                    [&](const GrpcCall&, GrpcReply reply) { kept.push_back(std::move(reply)); });
  GrpcClient client(server.port());
  EXPECT_EQ(client.call("ModelInfer", "x").error, "there was no answer in time");
  kept[0]({.message = "late"});
  EXPECT_TRUE(server.stop(10s));
}

TEST_F(GrpcServerTest, BoundsItsCalls) {
  std::promise<GrpcReply> promise;
  GrpcServer server({.max_calls = 1}, [&](const GrpcCall&, GrpcReply reply) { promise.set_value(std::move(reply)); });
  GrpcClient first(server.port()), second(server.port());
  auto answer = std::async(std::launch::async, [&] { return first.call("ModelInfer", "x"); });
  const GrpcReply reply = promise.get_future().get();
  EXPECT_THAT(second.call("ModelInfer", "x").error, HasSubstr("there are 1 calls already"));
  reply({.message = "answer"});
  EXPECT_EQ(answer.get().message, "answer");
}

TEST_F(GrpcServerTest, StoppingAnswersWhatIsThereWithinItsGrace) {
  std::promise<GrpcReply> promise;
  GrpcServer server({}, [&](const GrpcCall&, GrpcReply reply) { promise.set_value(std::move(reply)); });
  GrpcClient client(server.port());
  auto answer = std::async(std::launch::async, [&] { return client.call("ModelInfer", "x"); });
  const GrpcReply reply = promise.get_future().get();
  auto stopped = std::async(std::launch::async, [&] { return server.stop(20s); });
  EXPECT_EQ(stopped.wait_for(200ms), std::future_status::timeout);
  reply({.message = "answer"});
  EXPECT_EQ(answer.get().message, "answer");
  EXPECT_TRUE(stopped.get());
}

TEST_F(GrpcServerTest, StoppingCutsWhatHasNoAnswer) {
  for (const bool hurries : {false, true}) {
    std::promise<GrpcReply> promise;
    GrpcServer server({}, [&](const GrpcCall&, GrpcReply reply) { promise.set_value(std::move(reply)); });
    GrpcClient client(server.port());
    auto answer = std::async(std::launch::async, [&] { return client.call("ModelInfer", "x"); });
    const GrpcReply reply = promise.get_future().get();
    auto stopped = std::async(std::launch::async, [&] { return server.stop(hurries ? 60s : 100ms); });
    if (hurries) server.hurry();
    EXPECT_FALSE(stopped.get());
    EXPECT_EQ(answer.get().code, GrpcCode::unavailable);
    reply({.message = "late"});
  }
}

}  // namespace
}  // namespace tutti::serving
