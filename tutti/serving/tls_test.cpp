// HTTP and gRPC in TLS, and the files that they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <deque>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/grpc_client.h"
#include "tests/support/http_client.h"
#include "tests/support/served_models.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tls_client.h"
#include "tutti/cluster/rpc/certificates.h"
#include "tutti/serving/http_server.h"
#include "tutti/serving/rpc/tls.h"
#include "tutti/serving/server.h"

namespace tutti::serving {
namespace {

using namespace std::chrono_literals;
using namespace tutti::testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kTls11 = 0x0302, kTls12 = 0x0303, kTls13 = 0x0304;

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    save_double(folder / "models/double");
    made = rpc::make_certificates({"localhost", "client"}, 24h);
    write("cert.pem", made.hosts[0].certificate), write("key.pem", made.hosts[0].key);
    write("ca.pem", made.authority.certificate);
  }
  void write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    folder.write(name, text);
    ASSERT_EQ(chmod((folder / name).c_str(), mode), 0);
  }
  void start(ServerOptions options = {}) {
    options.models = {{.folder = folder / "models/double"}};
    options.port = 0, options.grpc_port = 0;
    options.tls_certificate = folder / "cert.pem", options.tls_key = folder / "key.pem";
    server = std::make_unique<Server>(options);
  }
  void TearDown() override {
    if (server) server->stop(0ms);
  }
  // Of reading these files of the folder.
  std::string refusal(const std::string& certificate, const std::string& key, const std::string& authority = "") {
    return error_of(
        [&] { read_tls_files(folder / certificate, folder / key, authority.empty() ? "" : folder / authority); });
  }

  const TemporaryFolder folder;
  rpc::Certificates made;
  std::unique_ptr<Server> server;
};

TEST_F(TlsTest, SpeaksHttpInVersions12And13) {
  start();
  for (const int version : {kTls12, kTls13}) {
    TlsClient client(server->port(), {.authority = made.authority.certificate, .max_version = version});
    ASSERT_TRUE(client.is_open());
    EXPECT_EQ(client.version(), version);
    EXPECT_THAT(client.get("/v2/health/live"), AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("{\"live\": true}")));
  }
  EXPECT_FALSE(TlsClient(server->port(), {.max_version = kTls11}).is_open());
}

TEST_F(TlsTest, CarriesLargeBodiesBothWaysOnOneConnection) {
  start();
  TlsClient client(server->port(), {.authority = made.authority.certificate});
  std::string body = R"({"instances": [[1, 2])";
  while (body.size() < 3'000'000) body += ", [0.125, 1e10]";
  body += "]}";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.send("POST /v1/models/double:predict HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n"));
    ASSERT_TRUE(client.send(body));
    std::this_thread::sleep_for(50ms);  // the answer waits for whom reads late
    const std::string answer = client.receive("]]}\n");
    EXPECT_THAT(answer.substr(0, 200),
                AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("{\"predictions\": [[2.0, 4.0], [0.25")));
    EXPECT_GT(answer.size(), 3'000'000U);
  }
}

TEST_F(TlsTest, NothingIsSaidInPlain) {
  start();
  HttpClient plain(server->port());
  ASSERT_TRUE(plain.send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_THAT(plain.receive_until("live"), testing::Not(HasSubstr("HTTP")));
  EXPECT_NE(GrpcClient(server->grpc_port()).call("ServerLive", "", {.timeout = 5s}).code, GrpcCode::ok);
}

TEST_F(TlsTest, SpeaksGrpc) {
  start();
  GrpcClient client(server->grpc_port(), made.authority.certificate);
  EXPECT_EQ(client.call("ServerLive", "").message, "\x08\x01");
  const std::string other = rpc::make_certificates({"localhost"}, 24h).authority.certificate;
  EXPECT_EQ(GrpcClient(server->grpc_port(), other).call("ServerLive", "", {.timeout = 5s}).code, GrpcCode::unavailable);
}

TEST_F(TlsTest, AsksClientsForTheirCertificates) {
  start({.tls_client_ca = folder / "ca.pem"});
  const auto answer = [&](const rpc::KeyPair& pair) {
    TlsClient client(server->port(), {.certificate = pair.certificate, .key = pair.key});
    return client.get("/v2/health/live");
  };
  EXPECT_THAT(answer(made.hosts[1]), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(answer({}), "");
  EXPECT_EQ(answer(rpc::make_certificates({"client"}, 24h).hosts[0]), "");
  GrpcClient without(server->grpc_port(), made.authority.certificate);
  EXPECT_EQ(without.call("ServerLive", "", {.timeout = 5s}).code, GrpcCode::unavailable);
}

TEST_F(TlsTest, HandshakesThatHaltOrMakeNoSenseEndAlone) {
  const TlsCredentials credentials{.certificate = made.hosts[0].certificate, .key = made.hosts[0].key};
  HttpServer server({.receive_timeout = 200ms, .tls = credentials},
                    [](const HttpRequest&, const Reply& reply) { reply({.body = "{}"}); });
  const std::string_view hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);  // begins a ClientHello
  for (const std::string& bytes : {std::string(), std::string(hello), std::string(100'000, '\xff')}) {
    HttpClient stranger(server.port());
    stranger.send(bytes);
    EXPECT_TRUE(stranger.is_closed_after_what_it_says());
  }
  for (int i = 0; i < 20; ++i) HttpClient(server.port()).send(hello);  // and go away
  TlsClient late(server.port(), {});
  ASSERT_TRUE(late.is_open());
  std::this_thread::sleep_for(400ms);  // the handshake's time is not that of an idle connection
  EXPECT_THAT(late.get("/"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(TlsTest, LosesNothingWhenItEnds) {
  start();
  std::deque<TlsClient> connections;  // all are there before the server ends
  for (int i = 0; i < 3; ++i) connections.emplace_back(server->port(), TlsClient::Options{});
  std::vector<std::thread> clients;
  std::atomic<int> num_answered = 0, num_lost = 0;
  for (TlsClient& own : connections)
    clients.emplace_back([&] {
      while (true) {
        const bool was_sent = own.send("GET /v1/models/double HTTP/1.1\r\nHost: a\r\n\r\n");
        const std::string answer = was_sent ? own.receive("}]}\n") : "";
        answer.starts_with("HTTP/1.1 200") ? ++num_answered : ++num_lost;
        if (!answer.starts_with("HTTP/1.1 200") || answer.find("Connection: close") != std::string::npos) return;
      }
    });
  while (num_answered < 50) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(server->stop(20s));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(num_lost, 0);
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  EXPECT_TRUE(read_tls_files("", "", "").is_empty());
  EXPECT_FALSE(read_tls_files(folder / "cert.pem", folder / "key.pem", folder / "ca.pem").is_empty());
  EXPECT_THAT(error_of([&] { read_tls_files(folder / "cert.pem", "", ""); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { read_tls_files("", "", folder / "ca.pem"); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal("none.pem", "key.pem"),
              AllOf(HasSubstr("not_found"), HasSubstr("none.pem"), HasSubstr("No such")));
  EXPECT_THAT(refusal("cert.pem", "none.pem"), AllOf(HasSubstr("not_found"), HasSubstr("none.pem")));
  write("empty.pem", "");
  EXPECT_THAT(refusal("empty.pem", "key.pem"), HasSubstr("empty.pem' can't be read, or is empty"));
  write("long.pem", std::string((1 << 20) + 1, 'a'));
  EXPECT_THAT(refusal("long.pem", "key.pem"), HasSubstr("long.pem' is too long"));
  for (const mode_t mode : {0644, 0620, 0602}) {
    write("open.pem", made.hosts[0].key, mode);
    EXPECT_THAT(refusal("cert.pem", "open.pem"), AllOf(HasSubstr("open.pem"), HasSubstr("chmod 600"))) << mode;
  }
  write("group.pem", made.hosts[0].key, 0440);
  EXPECT_EQ(refusal("cert.pem", "group.pem"), "no error");
  EXPECT_THAT(refusal("key.pem", "key.pem"), AllOf(HasSubstr("key.pem"), HasSubstr("no certificate in PEM form")));
  EXPECT_THAT(refusal("cert.pem", "cert.pem"), AllOf(HasSubstr("cert.pem"), HasSubstr("no private key")));
  write("damaged.pem", made.hosts[0].key.substr(0, made.hosts[0].key.size() / 2));
  EXPECT_THAT(refusal("cert.pem", "damaged.pem"), AllOf(HasSubstr("damaged.pem"), HasSubstr("no private key")));
  write("other.pem", made.hosts[1].key);
  EXPECT_THAT(refusal("cert.pem", "other.pem"),
              AllOf(HasSubstr("other.pem' is not that of the"), HasSubstr("cert.pem")));
  write("old.pem", rpc::make_certificates({"localhost"}, -1h).hosts[0].certificate);
  EXPECT_THAT(refusal("old.pem", "key.pem"), AllOf(HasSubstr("old.pem"), HasSubstr("it holds from")));
  write("no_ca.pem", "no certificate");
  EXPECT_THAT(refusal("cert.pem", "key.pem", "no_ca.pem"), HasSubstr("no_ca.pem"));
}

}  // namespace
}  // namespace tutti::serving
