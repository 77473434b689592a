package dev.edgex.model.engine

import dev.edgex.model.tensor.TensorData
import java.io.File

/** A tensor that comes out of each run and goes into the next as [input]; [initial] goes into the first. */
class CarriedState(val input: String, val initial: TensorData)

/**
 * What an engine loads: the [method] in a [file], names of its [inputs] in their order, and the [state] that the file does not
 * keep. [provider] has options of what computes in place of the CPU, as the engine spells them; null where nothing does.
 */
class ModelProgram(
    val file: File,
    val method: String = "forward",
    val inputs: List<String> = emptyList(),
    val state: List<CarriedState> = emptyList(),
    val provider: Map<String, String>? = null,
)
