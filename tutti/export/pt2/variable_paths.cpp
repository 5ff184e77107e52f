#include "tutti/export/pt2/variable_paths.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "tutti/core/str.h"
#include "tutti/export/python_names.h"

namespace tutti::saved_model::pt2 {
namespace {

// What modules and graphs of PyTorch have of their own.
constexpr std::array<std::string_view, 64> kModuleAttributes = {"add_module",
                                                                "add_submodule",
                                                                "apply",
                                                                "bfloat16",
                                                                "buffers",
                                                                "call_super_init",
                                                                "children",
                                                                "code",
                                                                "compile",
                                                                "cpu",
                                                                "cuda",
                                                                "delete_all_unused_submodules",
                                                                "delete_submodule",
                                                                "double",
                                                                "dump_patches",
                                                                "eval",
                                                                "extra_repr",
                                                                "float",
                                                                "forward",
                                                                "get_buffer",
                                                                "get_extra_state",
                                                                "get_parameter",
                                                                "get_submodule",
                                                                "graph",
                                                                "half",
                                                                "ipu",
                                                                "load_state_dict",
                                                                "meta",
                                                                "modules",
                                                                "mtia",
                                                                "named_buffers",
                                                                "named_children",
                                                                "named_modules",
                                                                "named_parameters",
                                                                "parameters",
                                                                "print_readable",
                                                                "range_constraints",
                                                                "recompile",
                                                                "register_backward_hook",
                                                                "register_buffer",
                                                                "register_forward_hook",
                                                                "register_forward_pre_hook",
                                                                "register_full_backward_hook",
                                                                "register_full_backward_pre_hook",
                                                                "register_load_state_dict_post_hook",
                                                                "register_load_state_dict_pre_hook",
                                                                "register_module",
                                                                "register_parameter",
                                                                "register_state_dict_post_hook",
                                                                "register_state_dict_pre_hook",
                                                                "requires_grad_",
                                                                "set_extra_state",
                                                                "set_submodule",
                                                                "share_memory",
                                                                "state_dict",
                                                                "to",
                                                                "to_empty",
                                                                "to_folder",
                                                                "train",
                                                                "training",
                                                                "type",
                                                                "validate_inputs",
                                                                "xpu",
                                                                "zero_grad"};

std::string attribute_of(std::string_view part) {
  std::string made = with_underscores(part);
  if (made.empty() || made[0] == '_') made = 'v' + made;  // PyTorch's own begin with '_'
  if (std::ranges::find(kModuleAttributes, made) != kModuleAttributes.end()) made += '_';
  return made;
}

std::string path_of(std::string_view name) {
  std::string path;
  while (true) {
    const size_t end = name.find_first_of("./");
    path += attribute_of(name.substr(0, end));
    if (end == std::string_view::npos) return path;
    path += '.';
    name.remove_prefix(end + 1);
  }
}

// An attribute is a variable or a module, which has others.
class Paths {
 public:
  bool add(const std::string& path) {
    if (variables_.contains(path) || modules_.contains(path)) return false;
    std::vector<std::string> above;
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
      above.push_back(path.substr(0, dot));
    if (std::ranges::any_of(above, [&](const std::string& module) { return variables_.contains(module); }))
      return false;
    variables_.insert(path);
    modules_.insert(above.begin(), above.end());
    return true;
  }

 private:
  std::set<std::string> variables_, modules_;
};

}  // namespace

std::vector<std::string> variable_paths(const std::vector<std::string>& names) {
  Paths taken;
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(path_of(name));
    if (taken.add(paths.back())) continue;
    std::string flat = paths.back();
    std::ranges::replace(flat, '.', '_');
    for (int i = 1; !taken.add(paths.back()); ++i) paths.back() = str(flat, '_', i);
  }
  return paths;
}

}  // namespace tutti::saved_model::pt2
