#pragma once

#include <string>
#include <string_view>
#include <vector>

// The short forms in which launchers write many hosts. For text from anywhere: at most kMaxTasks hosts or numbers come
// of it. All throw invalid_argument, with the text, for what is none of them.
namespace tutti::cluster {

// Slurm's: "n[1-3,08],login" is n1, n2, n3, n08, login. A range that goes down is empty.
std::vector<std::string> expand_slurm_hosts(std::string_view text);
// Slurm's numbers of tasks for each host: "2(x3),1" is 2, 2, 2, 1.
std::vector<int> expand_slurm_counts(std::string_view text);
// A shell's: "job-{0..3}.svc:8470,other" is job-0.svc:8470, … Without a port, one is added.
std::vector<std::string> expand_braces(std::string_view text, int default_port);

}  // namespace tutti::cluster
