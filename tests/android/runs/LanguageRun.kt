import dev.edgex.model.EdgeModel
import dev.edgex.model.ModelManifest
import dev.edgex.model.text.Sampling
import dev.edgex.model.text.Token
import dev.edgex.model.text.generate
import dev.edgex.model.text.idsOf
import java.io.File
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import org.json.JSONArray
import org.json.JSONObject

/**
 * A language model's library on the desktop build of its engine. Each line of a file asks for one thing, `{"ids": TEXT}` or
 * `{"prompt": IDS, "max_new": 8, "seed": 1, …}`; the answer is a line of ids, or of ids and the text that they make.
 */
fun main(arguments: Array<String>) {
    val (assets, questions) = arguments.map(::File)
    val manifest = ModelManifest.parse(File(assets, "manifest.json").readText())
    val model = EdgeModel(manifest, Desktop(assets, manifest))
    runBlocking {
        for (line in questions.readLines()) {
            val asked = JSONObject(line)
            if (asked.has("ids")) {
                println(JSONArray(model.idsOf(asked.getString("ids"))))
                continue
            }
            val tokens = tokensOf(model, asked).toList()
            println(JSONArray(listOf(JSONArray(tokens.map { it.id }), tokens.joinToString("") { it.text.orEmpty() })))
        }
        checkThatOneTextEndsAnother(model)
    }
    model.close()
}

private fun tokensOf(model: EdgeModel, asked: JSONObject): Flow<Token> = flow {
    val prompt = asked.getJSONArray("prompt").let { ids -> List(ids.length()) { ids.getInt(it) } }
    val sampling = Sampling(
        asked.getDouble("temperature"), asked.getInt("top_k"), asked.getDouble("top_p"), asked.getDouble("repetition_penalty"),
        asked.getLong("seed"),
    )
    model.generate(prompt, asked.getInt("max_new"), sampling) { emit(it) }
}

/** A flow that is not taken to its end gives the model free; a text that another has ended fails. */
private suspend fun checkThatOneTextEndsAnother(model: EdgeModel) {
    val endless: Flow<Token> = flow { model.generate(listOf(1), 100, Sampling()) { emit(it) } }
    check(endless.take(2).toList().size == 2)
    val failure = runCatching { model.generate(listOf(1), 5, Sampling()) { model.generate(listOf(2), 1, Sampling()) {} } }
    check(failure.exceptionOrNull() is IllegalStateException) { "two texts went on in one cache: $failure" }
    val strange = runCatching { model.generate(listOf(-1), 1) {} }
    check(strange.exceptionOrNull() is IllegalArgumentException) { "$strange" }
}
