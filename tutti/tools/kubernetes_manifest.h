#pragma once

#include <string>
#include <vector>

// What `tutti launch --print-kubernetes` prints: a program as a job of Kubernetes, whose pods find each other.
namespace tutti::tools {

struct KubernetesOptions {
  enum class Kind { job, jobset, tfjob } kind = Kind::job;  // an Indexed Job, a JobSet, Kubeflow's TFJob
  std::string name = "train";
  std::string image = "registry.example/train:latest";
  int num_workers = 2;
  int num_restarts = 0;
  int grace_seconds = 30;
  std::vector<std::string> command = {};
};

// "job", "jobset", "tfjob". Throws: invalid_argument.
KubernetesOptions::Kind parse_kubernetes_kind(const std::string& text);

// YAML for `kubectl apply -f -`: the job, the service that gives its pods names, a policy of the network that lets pods
// of this job alone come to them, and how to make the secret with their token. Throws: invalid_argument for a name that
// Kubernetes would refuse, and without workers or a program.
std::string kubernetes_manifest(const KubernetesOptions& options);

}  // namespace tutti::tools
