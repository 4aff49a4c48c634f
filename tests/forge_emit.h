#include "listener/forge_emit.h"
