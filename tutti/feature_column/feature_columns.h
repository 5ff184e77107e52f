#pragma once

// All kinds of feature columns, the layers that read them, and what they are read from.
#include "tutti/data/columns.h"
#include "tutti/data/parse_spec.h"
#include "tutti/data/strings_from.h"
#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/crossed_column.h"
#include "tutti/feature_column/dense_features.h"
#include "tutti/feature_column/embedding_column.h"
#include "tutti/feature_column/embedding_lookup.h"
#include "tutti/feature_column/feature_column.h"
#include "tutti/feature_column/linear_model.h"
#include "tutti/feature_column/make_parse_example_spec.h"
#include "tutti/feature_column/numeric_column.h"
#include "tutti/feature_column/sequence_column.h"
