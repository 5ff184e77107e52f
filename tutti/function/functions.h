#pragma once

// Recorded functions, and what may be called in them.
#include "tutti/function/control_flow.h"
#include "tutti/function/function.h"
#include "tutti/function/graphviz.h"
#include "tutti/function/host_call.h"
#include "tutti/function/next.h"
#include "tutti/function/print.h"
#include "tutti/function/program.h"
#include "tutti/function/repeat.h"
