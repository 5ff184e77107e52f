// The `tutti` command.
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "tutti/core/error.h"
#include "tutti/tools/checkpoint_command.h"
#include "tutti/tools/plan_command.h"

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

  CLI::App& plan = *app.add_subcommand("plan", "how a program will understand what it is started with");
  plan.require_subcommand(1);
  plan.add_subcommand("env",
                      "which of the launchers' variables are taken, and who this process is; status 1 for an error")
      ->callback(
          [&] { command = [] { return plan_environment(tutti::cluster::Environment::of_process(), std::cout); }; });

  CLI11_PARSE(app, argc, argv);
  try {
    return command();
  } catch (const tutti::Error& error) {
    std::cerr << "tutti: " << error.what() << '\n';
    return 2;
  }
}
