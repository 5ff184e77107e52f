#include "tutti/pjrt/topology_description.h"

#include "tutti/pjrt/abi_programs.h"
#include "tutti/pjrt/compile_options.h"

namespace tutti::pjrt {

TopologyDescription::TopologyDescription(const Plugin& plugin, const std::string& name, const NamedValues& options)
    : plugin_(plugin) {
  const std::vector<abi::NamedValue> values = to_abi(options);
  abi::TopologyDescriptionCreate args{.topology_name = name.data(),
                                      .topology_name_size = name.size(),
                                      .create_options = values.data(),
                                      .num_options = values.size()};
  plugin_.call(args);
  handle_ = args.topology;
}

TopologyDescription::~TopologyDescription() { plugin_.destroy<abi::TopologyDescriptionDestroy>(handle_); }

std::vector<DeviceFacts> TopologyDescription::devices() const {
  abi::TopologyDescriptionDevices args{.topology = handle_};
  plugin_.call(args);
  std::vector<DeviceFacts> facts;
  for (size_t i = 0; i < args.num_descriptions; ++i) facts.push_back(facts_of(plugin_, args.descriptions[i]));
  return facts;
}

Executable TopologyDescription::compile(const std::string& program, const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  const abi::Program text = program_of(program);
  abi::Compile args{.topology = handle_,
                    .program = &text,
                    .compile_options = serialized.data(),
                    .compile_options_size = serialized.size()};
  plugin_.call(args);
  return Executable(plugin_, args.executable);
}

}  // namespace tutti::pjrt
