import dev.edgex.model.engine.CarriedState
import dev.edgex.model.engine.EngineException
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.ModelProgram
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import java.io.File

/** The LiteRT engine against a stand-in of its interpreter, which adds up what it is given: state goes on, and starts anew. */
fun main(arguments: Array<String>) {
    val file = File(arguments.single())
    fun tensor(vararg values: Float) =
        TensorData.allocate(DType.FLOAT32, intArrayOf(values.size)).also { made -> values.forEachIndexed { at, v -> made[at] = v.toDouble() } }
    modelEngine.loadLibrary()
    for (round in 1..2) {
        val program = ModelProgram(file, inputs = listOf("x"), state = listOf(CarriedState("state_in.sum", tensor(10f, 20f))))
        modelEngine.load(program, threads = 2, LoadMode.MMAP).engine.use { engine ->
            engine.bind(listOf(tensor(1f, 2f)))
            val found = List(3) { engine.run().let { engine.outputs().single() } }
            val sums = found.map { listOf(it[0], it[1]) }
            check(sums == listOf(listOf(11.0, 22.0), listOf(12.0, 24.0), listOf(13.0, 26.0))) { "$sums" }
        }
    }
    for (refused in listOf({ modelEngine.load(ModelProgram(file), 0, LoadMode.FILE) }, { modelEngine.load(ModelProgram(File("none")), 0, LoadMode.MMAP) })) {
        check(runCatching(refused).exceptionOrNull() is EngineException)
    }
    println("state goes on from run to run, and begins anew")
}
