#include "tutti/checkpoint/trackable.h"

#include "tutti/checkpoint/module_state.h"
#include "tutti/checkpoint/optimizer_state.h"

namespace tutti {

Trackable::Trackable(Savable& object)
    : visit_([&object](const std::string& name, StateVisitor& visitor) { visitor.object(name, object); }) {}

Trackable::Trackable(std::shared_ptr<Savable> object)
    : visit_([object](const std::string& name, StateVisitor& visitor) { visitor.object(name, *object); }) {}

Trackable::Trackable(torch::nn::Module& module) : Trackable(std::make_shared<checkpoint::ModuleState>(module)) {}

Trackable::Trackable(torch::optim::Optimizer& optimizer)
    : Trackable(std::make_shared<checkpoint::OptimizerState>(optimizer)) {}

Trackable::Trackable(const Tensor& tensor)
    : visit_([tensor](const std::string& name, StateVisitor& visitor) { visitor.tensor(name, tensor); }) {}

Trackable::Trackable(int64_t& number)
    : visit_([&number](const std::string& name, StateVisitor& visitor) { visitor.number(name, number); }) {}

Trackable::Trackable(double& number)
    : visit_([&number](const std::string& name, StateVisitor& visitor) { visitor.number(name, number); }) {}

}  // namespace tutti
