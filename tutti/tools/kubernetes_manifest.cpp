#include "tutti/tools/kubernetes_manifest.h"

#include <sstream>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"

namespace tutti::tools {
namespace {

constexpr int kPort = 2222;  // of every pod: no two of them share an address

// Lines of a text, each behind that many spaces.
std::string indented(const std::string& text, int spaces) {
  std::istringstream lines(text);
  std::string line, all;
  while (std::getline(lines, line)) all += std::string(static_cast<size_t>(spaces), ' ') + line + '\n';
  return all;
}

void check(const KubernetesOptions& options) {
  const bool is_name = !options.name.empty() && options.name.size() <= 40 &&
                       options.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos &&
                       options.name.front() >= 'a' && options.name.back() != '-';
  if (!is_name)
    throw Error(ErrorCode::invalid_argument,
                str("'", options.name, "' is no name for a job: up to 40 small letters, digits and -, a letter first"));
  if (options.num_workers < 1) throw Error(ErrorCode::invalid_argument, "nobody would train: give a number with -n");
  if (options.command.empty()) throw Error(ErrorCode::invalid_argument, "which program? Name it behind the options");
}

std::string pods(const KubernetesOptions& options, const std::string& container, const std::string& variables,
                 const std::string& subdomain) {
  std::string command;
  for (const std::string& word : options.command) command += (command.empty() ? "" : ", ") + json_text(word);
  std::string text = str("metadata:\n  labels: {app: ", options.name, "}\nspec:\n");
  if (!subdomain.empty()) text += str("  subdomain: ", subdomain, "\n");
  return text + str("  restartPolicy: Never\n  terminationGracePeriodSeconds: ", options.grace_seconds,
                    "\n  containers:\n  - name: ", container, "\n    image: ", json_text(options.image),
                    "\n    command: [", command, "]\n    ports: [{containerPort: ", kPort, "}]\n    env:\n", variables,
                    "    - {name: TUTTI_TOKEN_FILE, value: /etc/tutti/token}\n"
                    "    volumeMounts: [{name: token, mountPath: /etc/tutti, readOnly: true}]\n"
                    "  volumes:\n  - name: token\n    secret: {secretName: ",
                    options.name, "-token}\n");
}

std::string hosts_variable(const std::string& hosts) {
  return str("    - {name: TUTTI_JOB_HOSTS, value: ", json_text(hosts), "}\n");
}

// The pods of an Indexed Job are NAME-0.NAME, NAME-1.NAME, …; each knows its index.
std::string job_spec(const KubernetesOptions& options, const std::string& hosts, const std::string& subdomain) {
  return str("completionMode: Indexed\ncompletions: ", options.num_workers, "\nparallelism: ", options.num_workers,
             "\nbackoffLimit: 0\ntemplate:\n", indented(pods(options, "train", hosts_variable(hosts), subdomain), 2));
}

std::string service(const std::string& name, const std::string& app) {
  return str("apiVersion: v1\nkind: Service\nmetadata: {name: ", name,
             "}\nspec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n  selector: {app: ", app, "}\n---\n");
}

std::string job(const KubernetesOptions& options) {
  const std::string hosts = str(options.name, "-{0..", options.num_workers - 1, "}.", options.name, ":", kPort);
  return service(options.name, options.name) + str("apiVersion: batch/v1\nkind: Job\nmetadata: {name: ", options.name,
                                                   "}\nspec:\n", indented(job_spec(options, hosts, options.name), 2));
}

// The JobSet makes the service itself, and starts all pods again where one has failed.
std::string jobset(const KubernetesOptions& options) {
  const std::string hosts =
      str(options.name, "-workers-0-{0..", options.num_workers - 1, "}.", options.name, ":", kPort);
  return str("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: ", options.name,
             "}\nspec:\n  network: {enableDNSHostnames: true, subdomain: ", options.name,
             "}\n  failurePolicy: {maxRestarts: ", options.num_restarts,
             "}\n  replicatedJobs:\n  - name: workers\n    replicas: 1\n    template:\n      spec:\n",
             indented(job_spec(options, hosts, ""), 8));
}

// The operator sets TF_CONFIG, in the container of this name alone.
std::string tfjob(const KubernetesOptions& options) {
  return str("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: ", options.name,
             "}\nspec:\n  runPolicy: {cleanPodPolicy: None, backoffLimit: ", options.num_restarts,
             "}\n  tfReplicaSpecs:\n    Worker:\n      replicas: ", options.num_workers,
             "\n      restartPolicy: ExitCode\n      template:\n", indented(pods(options, "tensorflow", "", ""), 8));
}

std::string policy(const KubernetesOptions& options) {
  return str("---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: ", options.name,
             "}\nspec:\n  podSelector: {matchLabels: {app: ", options.name,
             "}}\n  policyTypes: [Ingress]\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: ", options.name,
             "}}}]\n");
}

}  // namespace

KubernetesOptions::Kind parse_kubernetes_kind(const std::string& text) {
  if (text == "job") return KubernetesOptions::Kind::job;
  if (text == "jobset") return KubernetesOptions::Kind::jobset;
  if (text == "tfjob") return KubernetesOptions::Kind::tfjob;
  throw Error(ErrorCode::invalid_argument, str("'", text, "' is none of job, jobset and tfjob"));
}

std::string kubernetes_manifest(const KubernetesOptions& options) {
  check(options);
  const std::string head = str("# Before the first time: openssl rand -hex 32 > token; kubectl create secret generic ",
                               options.name, "-token --from-file=token\n");
  switch (options.kind) {
    case KubernetesOptions::Kind::job: return head + job(options) + policy(options);
    case KubernetesOptions::Kind::jobset: return head + jobset(options) + policy(options);
    case KubernetesOptions::Kind::tfjob: return head + tfjob(options) + policy(options);
  }
  return head;
}

}  // namespace tutti::tools
