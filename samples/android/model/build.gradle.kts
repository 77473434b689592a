// As it stands in any project: the version of Android's plugin is the project's, and so is the catalog, which is not used here.
plugins {
    id("com.android.library")
}

android {
    namespace = "dev.edgex.model"
    compileSdk = 37

    defaultConfig {
        minSdk = 26
        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"
    }

    testOptions {
        managedDevices {
            localDevices {
                // `./gradlew :model:atdDebugAndroidTest` brings this emulator, a small image for tests, and needs no phone.
                create("atd") {
                    device = "Pixel 2"
                    apiLevel = 34
                    systemImageSource = "aosp-atd"
                }
            }
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

dependencies {
    // The version that exported the model: an older one cannot be relied on to read it.
    val engine = "org.pytorch:executorch-android:1.5.1"
    // A library takes no AAR along: the app brings -PedgexExecutorchAar.
    val localAar = providers.gradleProperty("edgexExecutorchAar").orNull
    if (localAar == null) implementation(engine) else compileOnly(files(localAar))
    testImplementation("junit:junit:4.13.2")
    // Unit tests run off the device, where Android's own org.json is not.
    testImplementation("org.json:json:20240303")
    androidTestImplementation("androidx.test:runner:1.6.2")
}
