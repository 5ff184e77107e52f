#include "tutti/estimator/estimator.h"

#include <ATen/ops/scalar_tensor.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tutti/checkpoint/folder.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

constexpr std::string_view kVariables = "variables/";  // before their names in a checkpoint

std::filesystem::path new_temporary_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error)
    throw Error(ErrorCode::failed_precondition, str("Estimator: the folder for temporary files (TMPDIR): ",
                                                    error.message(), "; set model_dir, or mend TMPDIR"));
  std::string name = (folder / "tutti_estimator_XXXXXX").string();
  if (!mkdtemp(name.data())) throw Error(ErrorCode::unavailable, str("Estimator: cannot make the folder ", name));
  log_info(str("Using temporary folder as model directory: ", name));
  return name;
}

std::filesystem::path model_dir_of(const EstimatorOptions& options) {
  const std::string& own = options.model_dir;
  const std::string& configured = options.config->model_dir;
  if (!own.empty() && !configured.empty() && own != configured)
    throw Error(ErrorCode::invalid_argument, str("Estimator: model_dir is '", own, "', and that of config '",
                                                 configured, "'; give one of them, or the same"));
  if (own.empty() && configured.empty()) return new_temporary_folder();
  return std::filesystem::absolute(own.empty() ? configured : own);
}

std::string name_of(const StrategyRef& strategy) { return strategy ? std::string(strategy.get()->name()) : "none"; }

// Who is one of several processes trains with all of them, by its strategy.
void check_processes(const EstimatorOptions& options) {
  const RunConfig& config = options.config;
  const RunTask& task = config.task();
  const bool is_served = served_strategy(config->train_distribute) != nullptr;
  if (task.num_ps_replicas > 0 && !is_served)
    throw Error(ErrorCode::invalid_argument,
                str("Estimator: TF_CONFIG makes this process the ", task.task_type, ' ', task.task_id,
                    " of a cluster with parameter servers, and train_distribute is ", name_of(config->train_distribute),
                    "; give RunConfig a ParameterServerStrategy"));
  if (config->eval_distribute && config->eval_distribute.get()->processes())
    throw Error(
        ErrorCode::unimplemented,
        str("Estimator: eval_distribute is a ", name_of(config->eval_distribute),
            " of several processes; each evaluation is of one process: leave it out, or give MirroredStrategy"));
  const auto* const servers = dynamic_cast<const ParameterServerStrategy*>(config->train_distribute.get());
  if (servers && !is_served && servers->num_workers() > 1)
    throw Error(
        ErrorCode::unimplemented,
        str("Estimator: train_distribute is a ParameterServerStrategy of ", servers->num_workers(),
            " workers in one process, which train asynchronously by a ClusterCoordinator; give it one worker, or let "
            "the workers be processes"));
  const auto processes = config->train_distribute ? config->train_distribute.get()->processes() : nullptr;
  const int64_t count = processes ? processes->size() : 1;
  if (!is_served && !task.is_evaluator() && task.num_worker_replicas > 1 && count != task.num_worker_replicas)
    throw Error(ErrorCode::invalid_argument,
                str("Estimator: TF_CONFIG makes this process the ", task.task_type, ' ', task.task_id, " of ",
                    task.num_worker_replicas, " that train together, and train_distribute is ",
                    name_of(config->train_distribute), ", with ", count,
                    " process; give RunConfig a MultiWorkerMirroredStrategy"));
  if ((is_served || count > 1) && options.model_dir.empty() && config->model_dir.empty())
    throw Error(ErrorCode::invalid_argument,
                "Estimator: there is no model_dir; several processes need one folder that all of them see");
}

checkpoint::Reader newest(const std::filesystem::path& model_dir) {
  auto& files = checkpoint::posix_file_system();
  const auto latest = checkpoint::Folder(files, model_dir).latest();
  if (!latest)
    throw Error(ErrorCode::not_found,
                str("Estimator: there is no checkpoint in ", model_dir, " yet; train() saves some"));
  return {files, *latest};
}

}  // namespace

Estimator::Estimator(ModelFn model_fn, EstimatorOptions options) {
  if (!options.params.empty() && !model_fn.takes_params())
    throw Error(ErrorCode::invalid_argument, str("Estimator: params are given ('", options.params.begin()->first,
                                                 "'), and the model function takes none"));
  check_processes(options);
  auto model_dir = model_dir_of(options);
  state_ = std::make_shared<const State>(std::move(model_fn), std::move(model_dir), std::move(options.config),
                                         std::move(options.params), std::move(options.warm_start_from));
}

void Estimator::State::tell_unrecordable(ModeKeys mode, const Error& why) const {
  if (told_unrecordable[static_cast<size_t>(mode)].exchange(true)) return;
  warn(str("Estimator: the model function runs anew for each batch in mode ", to_string(mode),
           ", as its computation cannot be recorded: ", why.what()));
}

std::optional<std::filesystem::path> Estimator::latest_checkpoint() const {
  return checkpoint::Folder(checkpoint::posix_file_system(), model_dir()).latest();
}

std::vector<std::string> Estimator::get_variable_names() const {
  const checkpoint::Reader reader = newest(model_dir());
  std::vector<std::string> names{"global_step"};
  for (const auto& tensor : reader.tensors())
    if (tensor.name.starts_with(kVariables))
      names.emplace_back(std::string_view(tensor.name).substr(kVariables.size()));
  std::ranges::sort(names);
  return names;
}

Tensor Estimator::get_variable_value(const std::string& name) const {
  const GlobalViewGuard no_scope;
  const checkpoint::Reader reader = newest(model_dir());
  if (name == "global_step") return at::scalar_tensor(global_step_of(reader), at::kLong);
  const std::string full = str(kVariables, name);
  if (!reader.find(full))
    throw Error(ErrorCode::not_found, str("Estimator: ", reader.folder(), " has no variable '", name, "', but ",
                                          str_list(get_variable_names())));
  return reader.read(full);
}

const std::filesystem::path& Estimator::model_dir() const { return state_->model_dir; }
std::filesystem::path Estimator::eval_dir(const std::string& name) const {
  const std::filesystem::path path = name;
  if (std::find(path.begin(), path.end(), "..") != path.end())
    throw Error(ErrorCode::invalid_argument,
                str("Estimator: an evaluation named '", name, "' would be written outside of ", model_dir().string()));
  return model_dir() / (name.empty() ? "eval" : "eval_" + name);
}
const RunConfig& Estimator::config() const { return state_->config; }
const Params& Estimator::params() const { return state_->params; }

int64_t global_step_of(const checkpoint::Reader& reader) {
  const auto found = reader.values().find(str(kVariables, "global_step"));
  if (found == reader.values().end() || !std::holds_alternative<int64_t>(found->second))
    throw Error(ErrorCode::failed_precondition,
                str("Estimator: ", reader.folder(), " is no checkpoint of an Estimator: it has no global_step"));
  return std::get<int64_t>(found->second);
}

Batch first_batch(const BatchIterator& input, ModeKeys mode) {
  if (auto batch = input.peek()) return *std::move(batch);
  throw Error(ErrorCode::invalid_argument,
              str("Estimator, mode ", to_string(mode), ": input_fn gave no batch, and the first one makes the model"));
}

ParameterServerStrategy* served_strategy(const StrategyRef& strategy) {
  auto* const servers = strategy ? dynamic_cast<ParameterServerStrategy*>(strategy.get()) : nullptr;
  return servers && servers->training() ? servers : nullptr;
}

void require_hooks(const char* function, const Hooks& hooks, const Listeners& listeners) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::invalid_argument, str(function, ": ", what, " is a null pointer"));
  };
  if (std::ranges::find(hooks, nullptr) != hooks.end()) refuse("a hook");
  if (std::ranges::find(listeners, nullptr) != listeners.end()) refuse("a saving listener");
}

void restore_evaluated(ModelRun& run, std::optional<std::filesystem::path>& checkpoint, bool is_named) {
  while (checkpoint) {
    log_info(str("Restoring parameters from ", checkpoint->string()));
    try {
      return run.restore(*checkpoint, nullptr);
    } catch (const Error&) {
      const auto newest = checkpoint::Folder(checkpoint::posix_file_system(), run.model_dir()).latest();
      if (is_named || !newest || newest == checkpoint) throw;
      log_info(str("The training has removed ", checkpoint->string(), " meanwhile; taking the newest."));
      checkpoint = newest;
    }
  }
}

void begin_session(ModelRun& run, const EstimatorSpec& spec, Hooks& hooks, const std::function<void()>& model_made,
                   const std::function<void()>& give_values) {
  const auto& own = spec->mode == ModeKeys::train  ? spec->training_hooks
                    : spec->mode == ModeKeys::eval ? spec->evaluation_hooks
                                                   : spec->prediction_hooks;
  hooks.insert(hooks.end(), own.begin(), own.end());
  const auto& of_chief = spec->training_chief_hooks;
  if (spec->mode == ModeKeys::train && run.strategy().is_chief())
    hooks.insert(hooks.end(), of_chief.begin(), of_chief.end());
  call_hooks(hooks, &SessionRunHook::begin);
  model_made();
  log_info("Graph was finalized.");
  give_values();
  log_info("Running local_init_op.");
  log_info("Done running local_init_op.");
  call_hooks(hooks, &SessionRunHook::after_create_session, static_cast<Session&>(run));
}

}  // namespace tutti::estimator
