"""Django's settings. What an operator may change comes from the environment, through `mqueue.core.conf`."""

from mqueue.core import metrics  # noqa: F401  first: it says where django-prometheus keeps its numbers
from mqueue.core.conf import conf
from shards.databases import django_databases

CONF = conf()

SECRET_KEY = CONF.django_secret
DEBUG = CONF.debug
ALLOWED_HOSTS = list(CONF.allowed_hosts)
SECURE = CONF.api.tls_cert is not None

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "django_prometheus",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "mqueue",
    "tenants",
    "shards",
    "shards.store",
    "daemons",
    "pipeline",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "mqueue.api.middleware.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "mqueue.api.middleware.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

ROOT_URLCONF = "mqueue.urls"
ASGI_APPLICATION = "mqueue.asgi.application"

DATABASES = django_databases(CONF)
DATABASE_ROUTERS = ["shards.databases.Router"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # the packages' own files are served in place: no collectstatic before a first start
WHITENOISE_AUTOREFRESH = False

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 12 * 3600
SECURE_HSTS_SECONDS = 31_536_000 if SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
}

SPECTACULAR_SETTINGS = {
    "TITLE": "mqueue",
    "DESCRIPTION": "A multi-tenant, sharded priority message queue on PostgreSQL and Redis.",
    "VERSION": "v1",
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["mqueue.api.openapi.add_data_plane", "mqueue.api.openapi.add_control_plane"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

UNFOLD = {
    "SITE_TITLE": "mqueue",
    "SITE_HEADER": "mqueue",
    "SITE_SYMBOL": "stacks",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/support/icon.svg"}],
    "SHOW_BACK_BUTTON": False,
    "SIDEBAR": {"navigation": "mqueue.api.support.sidebar.navigation"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    # Whoever sends a strange Host gets his 400; a page of traceback for each would fill the log.
    "loggers": {"django.security.DisallowedHost": {"level": "CRITICAL"}},
}
