import java.util.Properties

// AGP 9 compiles Kotlin itself: there is no Kotlin plugin to apply.
plugins {
    alias(libs.plugins.android.application)
}

// storeFile, storePassword, keyAlias, keyPassword; never to be committed.
val keystore = providers.fileContents(rootProject.layout.projectDirectory.file("keystore.properties")).asText.map { text ->
    Properties().apply { load(text.reader()) }
}

android {
    namespace = "dev.edgex.sample"
    compileSdk = 37

    defaultConfig {
        applicationId = "dev.edgex.sample"
        minSdk = 26
        targetSdk = 36
        versionCode = 1
        versionName = "1.0"
        ndk {
            // 64-bit, as the model was proved; the engine's library holds these processors.
            abiFilters += listOf("arm64-v8a", "x86_64")
        }
    }

    signingConfigs {
        if (keystore.isPresent) {
            create("release") {
                val properties = keystore.get()
                storeFile = rootProject.file(properties.getProperty("storeFile"))
                storePassword = properties.getProperty("storePassword")
                keyAlias = properties.getProperty("keyAlias")
                keyPassword = properties.getProperty("keyPassword")
            }
        }
    }

    buildTypes {
        release {
            isMinifyEnabled = true
            isShrinkResources = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"), "proguard-rules.pro")
            // An APK to measure with may have the debug key; what goes to a store may not, see bundleRelease below.
            signingConfig = signingConfigs.getByName(if (keystore.isPresent) "release" else "debug")
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    androidResources {
        // Already compressed or incompressible; stored, they are copied and mapped faster.
        noCompress += listOf("pte", "onnx", "bin")
    }
}

val signed = keystore.isPresent
tasks.matching { it.name == "bundleRelease" }.configureEach {
    doFirst {
        if (!signed) {
            throw GradleException("A store takes no bundle with the debug key: write keystore.properties, see README.md")
        }
    }
}

dependencies {
    implementation(project(":model"))
    // -PedgexExecutorchAar=path takes an AAR of your own, for example one built for profiling; the library compiles against it.
    providers.gradleProperty("edgexExecutorchAar").orNull?.let { localAar ->
        implementation(files(localAar))
        implementation(libs.fbjni)
        implementation(libs.nativeloader)
    }
    testImplementation(libs.junit)
    testImplementation(libs.json)
}
