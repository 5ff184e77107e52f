#pragma once

namespace tutti::keras {

class Model;

namespace callbacks {

// Of the optimizer that the model was compiled with, for its next update.
double learning_rate(const Model& model);
// Throws: failed_precondition for an optimizer whose learning rate is a schedule.
void set_learning_rate(const Model& model, double rate);

}  // namespace callbacks
}  // namespace tutti::keras
