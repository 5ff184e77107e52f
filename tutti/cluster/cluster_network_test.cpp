#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/cluster/cluster.h"
#include "tutti/cluster/network.h"
#include "tutti/cluster/rpc/certificates.h"
#include "tutti/cluster/rpc/host_address.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Variables = Environment::Variables;

// A port that was free a moment ago. 0.0.0.0 stands for a network: it is not the loopback, and is there on every host.
int free_port() {
  const FileDescriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(probe.number(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(probe.number(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return ntohs(address.sin_port);
}

// TF_CONFIG of each of the workers.
std::vector<Variables> tf_configs(const std::string& host, int size) {
  std::string workers;
  for (int i = 0; i < size; ++i) workers += str(i > 0 ? ", " : "", '"', host, ':', free_port(), '"');
  std::vector<Variables> all;
  for (int i = 0; i < size; ++i)
    all.push_back({{"TF_CONFIG", str("{\"cluster\": {\"worker\": [", workers,
                                     "]}, \"task\": {\"type\": \"worker\", \"index\": ", i, "}}")}});
  return all;
}

std::vector<Variables> with(std::vector<Variables> all, const Variables& more) {
  for (Variables& each : all) each.insert(more.begin(), more.end());
  return all;
}

// f(cluster) of each process, here a thread, and what it threw.
std::vector<std::string> on_each(const std::vector<Variables>& processes, const std::function<void(Cluster&)>& f,
                                 std::chrono::milliseconds connect_timeout = 20s) {
  std::vector<std::string> errors(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i)
    threads.emplace_back([&, i] {
      errors[i] = error_of([&] { f(*Cluster::join({.connect_timeout = connect_timeout}, processes[i])); });
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_good(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "no error");
}

// All that a cluster does, between processes that share nothing but the network.
void meet_and_talk(Cluster& cluster) {
  const int size = cluster.spec().num_tasks();
  for (int round = 0; round < 5; ++round) {
    cluster.insert(str("round ", round), "began");
    cluster.barrier("round");
    EXPECT_EQ(cluster.get(str("round ", round), 1s), "began");
  }
  const auto names = cluster.gather("names", to_string(cluster.task()));
  ASSERT_EQ(names.size(), static_cast<size_t>(size));
  EXPECT_EQ(names[1], "worker 1");
  for (int peer = 0; peer < size; ++peer) {
    if (peer == cluster.task().index) continue;
    const auto stream = cluster.connect({"worker", peer}, "greetings", 10s);
    stream->send({{static_cast<uint8_t>(cluster.task().index)}});
    const auto message = stream->receive(Door::Clock::now() + 10s).bytes(10);
    EXPECT_EQ(message, std::vector<uint8_t>{static_cast<uint8_t>(peer)});
    stream->close(5s);
  }
  cluster.barrier("end");
}

// The addresses at which this process listens, as the kernel's tables have them.
std::set<std::string> listening_ports() {
  std::set<std::string> own, ports;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code is_gone;
    own.insert(std::filesystem::read_symlink(file, is_gone).string());
  }
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      const std::vector<std::string> all{std::istream_iterator<std::string>(fields), {}};
      if (all.size() > 9 && all[3] == "0A" && own.contains("socket:[" + all[9] + "]")) ports.insert(all[1]);
    }
  }
  return ports;
}

TEST(ClusterOverNetwork, MeetsByTheVariablesOfEachLauncher) {
  const TemporaryFolder folder;
  const Variables secret{{"TUTTI_TOKEN_FILE", folder.write("token", "0123456789abcdef\n").string()}};
  expect_good(on_each(with(tf_configs("0.0.0.0", 3), secret), meet_and_talk));
  const std::string port = std::to_string(free_port()), leader = "0.0.0.0:" + port;
  std::vector<Variables> torchrun, slurm, mpi;
  for (const char* rank : {"0", "1"}) {
    torchrun.push_back({{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "0.0.0.0"}, {"MASTER_PORT", port}});
    slurm.push_back({{"SLURM_PROCID", rank},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NODELIST", "n[1-2]"},
                     {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                     {"TUTTI_LEADER", leader}});
    mpi.push_back({{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"TUTTI_LEADER", leader}});
  }
  expect_good(on_each(with(torchrun, secret), meet_and_talk));
  expect_good(on_each(with(mpi, secret), meet_and_talk));
  const std::string error = on_each(with(slurm, secret), meet_and_talk, 300ms)[1];
  EXPECT_THAT(error, HasSubstr("the host 'n2' is not known here"));  // where this task is to listen
}

TEST(ClusterOverNetwork, OpensNoPortOnOneHost) {
  const auto talk_and_look = [](bool is_on_one_host) {
    return [=](Cluster& cluster) {
      meet_and_talk(cluster);
      EXPECT_EQ(listening_ports().empty(), is_on_one_host);
      cluster.barrier("seen");
    };
  };
  expect_good(on_each(tf_configs("localhost", 3), talk_and_look(true)));
  expect_good(on_each(with(tf_configs("0.0.0.0", 2), {{"TUTTI_INSECURE", "1"}}), talk_and_look(false)));
}

TEST(ClusterOverNetwork, RefusesToMeetWithoutAProof) {
  const auto errors = on_each(tf_configs("0.0.0.0", 2), meet_and_talk, 300ms);
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("failed_precondition"), HasSubstr("TUTTI_TOKEN_FILE"),
                             HasSubstr("tutti certificates"), HasSubstr("TUTTI_INSECURE=1")));
  expect_good(on_each(with(tf_configs("0.0.0.0", 2), {{"TUTTI_INSECURE", "1"}}), meet_and_talk));
}

TEST(ClusterOverNetwork, RefusesAnotherToken) {
  const TemporaryFolder folder;
  auto processes = tf_configs("0.0.0.0", 2);
  processes[0]["TUTTI_TOKEN_FILE"] = folder.write("one", "0123456789abcdef");
  processes[1]["TUTTI_TOKEN_FILE"] = folder.write("other", "0123456789abcdeF");
  const auto errors = on_each(processes, meet_and_talk, 1s);
  EXPECT_THAT(errors[0], HasSubstr("worker 1 has not joined"));
  EXPECT_THAT(errors[1], AllOf(HasSubstr("failed_precondition: worker 0"), HasSubstr("different tokens")));
  processes[1]["TUTTI_TOKEN_FILE"] = folder.write("short", "secret");
  EXPECT_THAT(error_of([&] { Cluster::join({}, processes[1]); }), HasSubstr("has 6 bytes"));
  processes[1]["TUTTI_TOKEN_FILE"] = "/nowhere";
  EXPECT_THAT(error_of([&] { Cluster::join({}, processes[1]); }), HasSubstr("/nowhere, which cannot be read"));
}

Variables tls_of(const TemporaryFolder& folder, const std::string& name, const std::string& authority,
                 const rpc::KeyPair& own) {
  return {{"TUTTI_TLS_CA", folder.write(name + "/ca.pem", authority)},
          {"TUTTI_TLS_CERTIFICATE", folder.write(name + "/own.pem", own.certificate)},
          {"TUTTI_TLS_KEY", folder.write(name + "/own.key", own.key)}};
}

TEST(ClusterOverNetwork, MeetsByCertificatesOfOneAuthorityAndNoOther) {
  const TemporaryFolder folder;
  const auto good = rpc::make_certificates({"0.0.0.0", "0.0.0.0"}, 1h), other = rpc::make_certificates({"0.0.0.0"}, 1h);
  auto processes = tf_configs("0.0.0.0", 2);
  processes[0].merge(tls_of(folder, "zero", good.authority.certificate, good.hosts[0]));
  auto strange = processes;
  processes[1].merge(tls_of(folder, "one", good.authority.certificate, good.hosts[1]));
  expect_good(on_each(processes, meet_and_talk));
  strange[1].merge(tls_of(folder, "two", other.authority.certificate, other.hosts[0]));
  const auto errors = on_each(strange, meet_and_talk, 2s);
  EXPECT_THAT(errors[1], AllOf(HasSubstr("failed_precondition"), HasSubstr("do not accept each other's certificates")));
  EXPECT_THAT(errors[0], HasSubstr("worker 1 has not joined"));
}

TEST(ClusterOverNetwork, NamesAWrongClock) {
  const TemporaryFolder folder;
  const auto late = rpc::make_certificates({"a"}, -1h);
  const auto variables = tls_of(folder, "late", late.authority.certificate, late.hosts[0]);
  EXPECT_THAT(error_of([&] { Security::from_environment(variables); }),
              AllOf(HasSubstr("TUTTI_TLS_CA"), HasSubstr("the clock of this host says"), HasSubstr("set the clock")));
  EXPECT_THAT(error_of([&] {
                Security::from_environment(Variables{{"TUTTI_TLS_CA", "x"}});
              }),
              HasSubstr("TUTTI_TLS_CERTIFICATE is not set"));
}

TEST(ClusterOverNetwork, RefusesAnotherClusterAndASecondProcessOfATask) {
  const Variables open{{"TUTTI_INSECURE", "1"}};
  auto processes = with(tf_configs("0.0.0.0", 2), open);
  auto strange = processes;
  strange[1]["TF_CONFIG"].replace(strange[1]["TF_CONFIG"].rfind("0.0.0.0:"), 8, "127.0.0.1:");
  const auto errors = on_each(strange, meet_and_talk, 1s);
  EXPECT_THAT(errors[1], AllOf(HasSubstr("worker 0 refuses this process: worker 1 knows another cluster than worker 0"),
                               HasSubstr("worker 1 is 0.0.0.0:"), HasSubstr(" here and 127.0.0.1:")));
  std::vector<Variables> twice{processes[0], processes[1]};
  expect_good(on_each(twice, [&](Cluster& cluster) {
    if (cluster.task().index == 1) {
      auto second = processes[1];
      second["TUTTI_LEADER"] = rpc::parse_host_port(cluster.spec().address({"worker", 0})).host + ":" +
                               std::to_string(rpc::parse_host_port(cluster.spec().address({"worker", 0})).port);
      const std::string error = error_of([&] { Cluster::join({.connect_timeout = 1s}, second); });
      EXPECT_THAT(error, AllOf(HasSubstr("already_exists"), HasSubstr("taken by another process")));
    }
    cluster.barrier("end");
  }));
}

TEST(NetworkLeader, AdmitsEachOfItsTasksOnce) {
  NetworkLeader leader({{"worker", 0}, {"worker", 1}});
  leader.own_connection({"worker", 0});
  const auto refusal = [&](const Task& task) {
    const auto error = leader.admit(PeerHello{.task = task, .purpose = "leader"});
    return error ? std::string(error->what()) : "welcome";
  };
  EXPECT_EQ(refusal({"worker", 1}), "welcome");
  EXPECT_THAT(refusal({"worker", 1}), HasSubstr("worker 1 is here already, or was: is it started twice?"));
  EXPECT_THAT(refusal({"worker", 0}), HasSubstr("is here already"));
  EXPECT_THAT(refusal({"worker", 2}), HasSubstr("the cluster has no worker 2"));
}

TEST(ClusterOverNetwork, ExplainsWhatGoesWrongAtFirst) {
  const Variables open{{"TUTTI_INSECURE", "1"}};
  const auto processes = with(tf_configs("0.0.0.0", 2), open);
  EXPECT_THAT(error_of([&] { Cluster::join({.connect_timeout = 300ms}, processes[1]); }),
              AllOf(HasSubstr("deadline_exceeded: worker 1 has tried for 300 ms to reach worker 0 at 0.0.0.0:"),
                    HasSubstr("Connection refused")));
  EXPECT_THAT(
      error_of([&] { Cluster::join({.connect_timeout = 300ms}, processes[0]); }),
      HasSubstr("deadline_exceeded: worker 0 has waited for 300 ms at barrier 'all tasks have come'; worker 1 has "
                "not joined"));
  EXPECT_THAT(error_of([&] {
                Cluster::join({.connect_timeout = 200ms}, Variables{{"RANK", "1"},
                                                                    {"WORLD_SIZE", "2"},
                                                                    {"MASTER_ADDR", "no-such-host.invalid"},
                                                                    {"MASTER_PORT", "1234"},
                                                                    {"TUTTI_INSECURE", "1"}});
              }),
              HasSubstr("the host 'no-such-host.invalid' is not known here"));
  EXPECT_THAT(error_of([&] {
                Cluster::join({}, Variables{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
              }),
              HasSubstr("set TUTTI_LEADER=host:port for all processes"));
}

TEST(ClusterOverNetwork, NamesTheFirstCause) {
  const auto errors = on_each(with(tf_configs("0.0.0.0", 3), {{"TUTTI_INSECURE", "1"}}), [](Cluster& cluster) {
    if (cluster.task().index == 2) return cluster.fail("no such file: train.csv");
    cluster.barrier("epoch 1");
  });
  for (const int survivor : {0, 1})
    EXPECT_EQ(errors[static_cast<size_t>(survivor)], "unavailable: worker 2 has failed: no such file: train.csv");
}

TEST(Gatekeeper, RefusesAnotherProgramVersionAndStart) {
  Gatekeeper gate(PeerHello{.task = {"worker", 0}, .program = "aaaa", .spec = "{}", .attempt = 1});
  const auto refusal = [&](PeerHello hello) {
    hello.task = {"worker", 1};
    const auto error = gate.check(hello);
    return error ? std::string(error->what()) : "welcome";
  };
  EXPECT_EQ(refusal({.program = "aaaa", .spec = "{}", .attempt = 1}), "welcome");
  EXPECT_THAT(refusal({.program = "bbbb", .spec = "{}", .attempt = 1}),
              HasSubstr("worker 1 runs another program than the others (build bbbb, not aaaa)"));
  EXPECT_THAT(refusal({.program = "aaaa", .spec = "{}", .attempt = 0}),
              HasSubstr("worker 1 belongs to start 0 of the program, worker 0 to start 1"));
  EXPECT_FALSE(program_build().empty());
}

TEST(NetworkPlan, MeetsWithoutAPortWhereTheLauncherSaysOneHost) {
  const auto plan = [](int size, const Variables& variables) {
    return plan_network(ClusterSpec::of_size("worker", size), {"worker", 1}, variables);
  };
  const NetworkPlan mpi = plan(2, {{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"PMIX_NAMESPACE", "../1@x"}});
  EXPECT_TRUE(mpi.is_on_one_host);
  EXPECT_EQ(mpi.leader_address, str("unix:/tmp/tutti-", geteuid(), "/___1_x-worker-0"));
  Variables mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  EXPECT_EQ(plan(2, mpich).leader_address, str("unix:/tmp/tutti-", geteuid(), "/of-", getppid(), "-worker-0"));
  mpich["MPI_LOCALNRANKS"] = "1";
  EXPECT_THAT(error_of([&] { plan(2, mpich); }), HasSubstr("set TUTTI_LEADER=host:port for all processes"));
  const ClusterSpec torch = ClusterSpec::of_indexed({{"worker", {{0, "node1:29500"}, {1, ""}}}});
  const auto torchrun = [&](Variables more) {
    more.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
    return plan_network(torch, {"worker", 1}, more);
  };
  EXPECT_EQ(torchrun({}).leader_address, "node1:29500");
  EXPECT_EQ(torchrun({}).own_address, "");
  EXPECT_EQ(torchrun({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}).leader_address, "node1:29501");
  EXPECT_TRUE(torchrun({{"LOCAL_WORLD_SIZE", "2"}}).is_on_one_host);
  EXPECT_EQ(torchrun({{"TUTTI_LEADER", "n2:1"}}).leader_address, "n2:1");
  for (const char* address : {"", "n2", "n2:0", "n2:99999"})
    EXPECT_THAT(error_of([&] {
                  torchrun({{"TUTTI_LEADER", address}});
                }),
                HasSubstr(str("TUTTI_LEADER: the address of worker 0 is '", address, "'; it must be host:port")));
}

// Recorded words of one visit open no door a second time.
TEST(Door, RefusesReplayedAndForgedVisits) {
  const TemporaryFolder folder;
  const std::string address = str("unix:", (folder / "door").string());
  const Security secret{.token = "0123456789abcdef"};
  Door door(address, secret, [](const PeerHello&) { return std::optional<Error>(); });
  const std::vector<uint8_t> hello = encode(PeerHello{.task = {"worker", 1}, .purpose = "leader"});
  const auto visit = [&](const std::function<rpc::Digest(const Challenge&)>& prove) {
    auto stream = rpc::connect(address, {});
    stream->send({hello});
    const auto answer = decode_challenge(stream->receive(Door::Clock::now() + 5s).bytes(1000));
    stream->send({encode(prove(answer))});
    return decode_verdict(stream->receive(Door::Clock::now() + 5s).bytes(1000));
  };
  rpc::Digest recorded;
  const auto honest = [&](const Challenge& challenge) {
    std::vector<uint8_t> said = hello;
    said.insert(said.end(), challenge.nonce.begin(), challenge.nonce.end());
    return recorded = rpc::prove(secret.token, "dialler", said);
  };
  EXPECT_TRUE(visit(honest).is_welcome);
  EXPECT_THAT(visit([&](const Challenge&) { return recorded; }).text, HasSubstr("the token is another one"));
  EXPECT_FALSE(visit([](const Challenge& challenge) { return challenge.proof; }).is_welcome);  // the door's own words
  EXPECT_TRUE(door.take("leader", Door::Clock::now()));
  EXPECT_FALSE(door.take("leader", Door::Clock::now()));
}

// Bytes of strangers neither pass nor harm.
TEST(Door, SendsAwayWhoSpeaksGarbage) {
  const TemporaryFolder folder;
  const std::string address = str("unix:", (folder / "door").string());
  Door door(address, {}, [](const PeerHello&) { return std::optional<Error>(); });
  std::mt19937 random(6);
  const std::vector<uint8_t> hello = encode(PeerHello{.task = {"worker", 1}, .purpose = "leader"});
  for (int i = 0; i < 200; ++i) {
    auto stream = rpc::connect(address, {});
    std::vector<uint8_t> bytes = hello;
    if (i % 4 == 0) bytes.assign(i % 8 == 0 ? 100'000 : 1 + random() % 100, static_cast<uint8_t>(random()));
    for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    if (bytes == hello) continue;
    stream->send({bytes});
    stream->send({{1, 2, 3}});
    error_of([&] {
      while (true) {
        const auto answer = stream->receive(Door::Clock::now() + 5s).bytes(1000);
        if (answer.size() == sizeof(Challenge)) continue;
        EXPECT_FALSE(decode_verdict(answer).is_welcome);
        return;
      }
    });
  }
  EXPECT_FALSE(door.take("leader", Door::Clock::now()));
  const auto stream = knock(address, "worker 0", PeerHello{.task = {"worker", 1}, .purpose = "leader"}, {}, 5s);
  EXPECT_TRUE(door.take("leader", Door::Clock::now() + 1s));
}

TEST(PeerHello, IsReadAsItWasWrittenAndNothingElseIs) {
  const PeerHello hello{.task = {"chief", 3}, .program = "p", .spec = "{}", .purpose = "leader", .attempt = 2};
  const std::vector<uint8_t> bytes = encode(hello);
  EXPECT_EQ(decode_peer_hello(bytes), hello);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(code_of([&] { decode_peer_hello(std::span(bytes).first(size)); }), ErrorCode::data_loss);
  std::mt19937 random(7);
  for (int i = 0; i < 100'000; ++i) {
    std::vector<uint8_t> changed = bytes;
    for (int change = 0; change < 3; ++change) changed[random() % changed.size()] = static_cast<uint8_t>(random());
    const auto code = code_of([&] { decode_peer_hello(changed); });
    EXPECT_TRUE(!code || code == ErrorCode::data_loss);
    for (const auto& decode : {+[](std::span<const uint8_t> some) { decode_verdict(some); },
                               +[](std::span<const uint8_t> some) { decode_challenge(some); },
                               +[](std::span<const uint8_t> some) { decode_proof(some); }})
      EXPECT_TRUE(code_of([&] { decode(changed); }).value_or(ErrorCode::data_loss) == ErrorCode::data_loss);
  }
}

}  // namespace
}  // namespace tutti::cluster
