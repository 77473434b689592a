package dev.edgex.model.engine

/** What runs the model of this library: the engine that its export was proved with. */
val modelEngine: EngineLibrary get() = LiteRtEngine
