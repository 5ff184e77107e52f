// Linked to a program, runs its functions as plain C++.
#include "tutti/function/function_options.h"

[[maybe_unused]] static const bool eagerly = (tutti::run_functions_eagerly(true), true);
