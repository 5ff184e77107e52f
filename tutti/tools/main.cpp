// The `tutti` command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <iostream>
#include <string_view>

#include "tutti/tools/certificates_command.h"
#include "tutti/tools/checkpoint_command.h"
#include "tutti/tools/kubernetes_manifest.h"
#include "tutti/tools/launch_command.h"
#include "tutti/tools/plan_command.h"
#include "tutti/tools/plan_tpu_command.h"
#include "tutti/tools/serve_command.h"

// What an app did not take: a program and its arguments, with `rest`, which begins with "--" if it is there at all.
static std::vector<std::string> program_of(const CLI::App& app, const std::vector<std::string>& rest) {
  std::vector<std::string> command = app.remaining();
  const bool is_ours = command.empty();  // the "--"; else it is one of the program's
  command.insert(command.end(), rest.begin(), rest.end());
  if (is_ours && !rest.empty()) command.erase(command.begin());
  return command;
}

int main(int argc, char** argv) {
  using namespace tutti::tools;
  CLI::App app{
      "tutti: what belongs to programs with Tutti and is no program: what they wrote, and what they are started with"};
  app.require_subcommand(1);
  CLI::App& checkpoint =
      *app.add_subcommand("checkpoint", "what checkpoints have, without the program that wrote them");
  checkpoint.require_subcommand(1);

  std::string path, other;
  std::function<int()> command;
  const auto add = [&](const char* name, const char* what, const char* argument, const auto& function) -> CLI::App& {
    CLI::App& added = *checkpoint.add_subcommand(name, what);
    added.add_option(argument, path)->required();
    added.callback([&, function] { command = [&, function] { return function(path, std::cout); }; });
    return added;
  };
  add("list", "the checkpoints of a directory, oldest first", "directory", list_checkpoints);
  add("show", "the tensors and numbers of a checkpoint", "folder", show_checkpoint);
  add("verify", "reads and checks every byte of a checkpoint; status 1 for damage", "folder", verify_checkpoint);
  add("diff", "how two checkpoints differ; status 1 if they do", "folder",
      [&](const auto& one, std::ostream& out) { return diff_checkpoints(one, other, out); })
      .add_option("other", other)
      ->required();

  // Behind "--", nothing is this command's.
  const auto num_own = static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);
  const std::vector<std::string> rest(argv + num_own, argv + argc);

  TpuPlanRequest tpu_plan;
  CLI::App& plan = *app.add_subcommand(
      "plan", "how a program will understand what it is started with, and what its step takes on TPUs");
  plan.add_option("--tpu", tpu_plan.topologies,
                  "TPUs that need not be there, v5e:4x8,v5p:2x2x1: what the step of a program takes on each; status 1 "
                  "where it does not fit")
      ->delimiter(',')
      ->allow_extra_args(false);
  plan.add_subcommand("env",
                      "which of the launchers' variables are taken, and who this process is; status 1 for an error")
      ->callback(
          [&] { command = [] { return plan_environment(tutti::cluster::Environment::of_process(), std::cout); }; });
  plan.prefix_command();
  plan.footer("Behind --tpu: PROGRAM ARGUMENT…");
  plan.callback([&] {
    if (!plan.get_subcommands().empty()) return;
    if (tpu_plan.topologies.empty()) throw CLI::CallForHelp();
    tpu_plan.command = program_of(plan, rest);
    command = [&] { return plan_tpus(tpu_plan, std::cout, std::cerr); };
  });

  std::vector<std::string> hosts;
  int days = 365;
  CLI::App& certificates = *app.add_subcommand(
      "certificates", "what hosts prove to each other with: an authority, and a certificate for each");
  certificates.add_option("directory", path, "where they are written")->required();
  certificates.add_option("hosts", hosts, "as the others reach them; NAME,ADDRESS for one that has several")
      ->required();
  certificates.add_option("--days", days, "how long they hold")->check(CLI::Range(1, 36500))->capture_default_str();
  certificates.callback(
      [&] { command = [&] { return make_certificates(path, hosts, std::chrono::hours(24 * days), std::cout); }; });

  ServeOptions served;
  int64_t batch_delay_us = 0;
  double timeout_seconds = 30, poll_seconds = 1, serve_grace_seconds = 30;
  CLI::App& server = *app.add_subcommand("serve", "saved models behind HTTP, as docs/serving.md tells");
  server.add_option("folders", served.folders, "FOLDER or NAME=FOLDER: a saved model, or its versions 1, 2, …")
      ->required();
  const auto option = [&](const char* name, auto& value, const char* what) {
    server.add_option(name, value, what)->capture_default_str();
  };
  option("--host", served.server.host, "the address; 0.0.0.0 for all of this host's");
  option("--port", served.server.port, "0: one that is free");
  server.add_option("--grpc-port", served.server.grpc_port,
                    "of the Open Inference Protocol over gRPC; 0: one that is free");
  option("--max-batch", served.server.max_batch, "rows of a call that requests share; 1: none do");
  option("--batch-delay-us", batch_delay_us, "microseconds that a call waits for more requests");
  option("--max-queued", served.server.max_queued, "requests for a signature; more are answered with 429");
  option("--timeout", timeout_seconds, "seconds that a request may wait");
  option("--versions", served.server.num_versions, "how many of the newest are served");
  option("--poll", poll_seconds, "seconds between looks at the folders");
  option("--max-request-bytes", served.server.max_request_bytes, "of one request");
  option("--max-bytes", served.server.max_bytes, "of all requests that are here");
  option("--max-connections", served.server.max_connections,
         "more are answered with 503; so many calls of gRPC besides");
  option("--tls-cert", served.server.tls_certificate, "a file in PEM: TLS and nothing else, over HTTP and gRPC");
  option("--tls-key", served.server.tls_key, "the certificate's key, in PEM");
  option("--tls-client-ca", served.server.tls_client_ca, "authorities in PEM, whose certificates clients must have");
  option("--token-file", served.token_file, "its first line is what requests must bear: Authorization: Bearer …");
  option("--grace", serve_grace_seconds, "seconds from SIGTERM to the end");
  server.callback([&] {
    const auto in_ms = [](double seconds) { return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)); };
    served.server.batch_delay = std::chrono::microseconds(batch_delay_us);
    served.server.request_timeout = in_ms(timeout_seconds);
    served.server.poll_interval = in_ms(poll_seconds);
    served.grace = in_ms(serve_grace_seconds);
    command = [&] { return serve(served, std::cout); };
  });

  LaunchOptions launched;
  double grace_seconds = std::chrono::duration<double>(launched.grace).count();
  CLI::App& launcher = *app.add_subcommand("launch", "a program as several processes of this host");
  launcher.add_option("-n,--processes,--workers", launched.num_workers, "workers");
  launcher.add_flag("--chief", launched.has_chief, "a chief besides");
  launcher.add_option("--ps", launched.num_ps, "parameter servers besides");
  launcher.add_flag("--evaluator", launched.has_evaluator, "an evaluator besides");
  launcher.add_option("--restarts", launched.num_restarts, "how often all are started again after one has failed");
  launcher.add_option(
      "--min", launched.min_processes,
      "with so many processes, on all hosts, the others go on when one has failed, which alone is started again");
  launcher.add_option("--grace", grace_seconds, "seconds from SIGTERM to SIGKILL")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  launcher.add_option("--log-dir", launched.log_dir, "a folder for a file with the lines of each process");
  launcher
      .add_option("--nodes", launched.num_nodes, "hosts, on each of which this command is given; -n workers on each")
      ->capture_default_str();
  launcher.add_option("--node-rank", launched.node_rank, "which of them this one is, from 0")->capture_default_str();
  launcher.add_option("--leader", launched.leader, "HOST:PORT on host 0, where all of them meet");
  launcher.add_option("--cpus-per-process", launched.cpus_per_process, "threads of OpenMP; 0: a share of the cores");
  std::string kubernetes_kind;
  KubernetesOptions kubernetes;
  launcher.add_option("--print-kubernetes", kubernetes_kind,
                      "starts nothing, and prints what has Kubernetes do it: a job, a jobset or a tfjob");
  launcher.add_option("--name", kubernetes.name, "of the job of Kubernetes")->capture_default_str();
  launcher.add_option("--image", kubernetes.image, "that its pods run")->capture_default_str();
  launcher.prefix_command();
  launcher.footer("Behind the options: PROGRAM ARGUMENT…");
  launcher.callback([&] {
    launched.command = program_of(launcher, rest);
    launched.grace = std::chrono::milliseconds(static_cast<int64_t>(1000 * grace_seconds));
    command = [&] {
      if (kubernetes_kind.empty()) return launch(launched, std::cout, std::cerr);
      kubernetes.kind = parse_kubernetes_kind(kubernetes_kind);
      kubernetes.num_workers = launched.num_workers;
      kubernetes.num_restarts = launched.num_restarts;
      kubernetes.grace_seconds = static_cast<int>(grace_seconds);
      kubernetes.command = launched.command;
      std::cout << kubernetes_manifest(kubernetes);
      return 0;
    };
  });

  CLI11_PARSE(app, num_own, argv);
  try {
    return command();
  } catch (const std::exception& error) {
    std::cerr << "tutti: " << error.what() << '\n';
    return 2;
  }
}
