"""The example of a transform: what a lead's own words tell about it. Rows of a topic in, rows for another topic out.

It is pure: no clock, no look-up, so a batch that is done again gives the same rows.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

LEAD = "email string, name string, company string, phone string, source string, employees long"
FREE_MAIL = ("gmail.com", "googlemail.com", "outlook.com", "hotmail.com", "yahoo.com", "gmx.net", "icloud.com")
COUNTRIES = {"+1": "US", "+33": "FR", "+34": "ES", "+39": "IT", "+41": "CH", "+43": "AT", "+44": "GB", "+49": "DE"}
SOURCES = {"referral": 30, "demo": 25, "webinar": 15, "form": 10}
HOT, WARM = 60, 30
MAIL = r"^[^@\s]+@([^@\s]+\.[a-z]{2,})$"
COLUMNS = "id long, body string, payload binary, priority short, traceparent string"  # that it needs of a message


def enriched(messages: DataFrame, into: str) -> DataFrame:
    """One row for each, ready to be sent: its key is the target and the lead's id, so a lead is once in each target,
    however often it comes. What is no lead goes on too, and says why, since nothing may be lost."""
    lead = fn.from_json("body", LEAD)
    parsed = messages.select("id", "priority", "traceparent", lead.alias("lead"))
    mail = fn.lower(fn.trim("lead.email"))
    phone = fn.regexp_replace("lead.phone", r"[^+0-9]", "")
    told = parsed.select(
        "*", mail.alias("email"), fn.nullif(fn.regexp_extract(mail, MAIL, 1), fn.lit("")).alias("domain"),
        phone.alias("phone"),
    )  # fmt: skip
    known = told.withColumns({"is_company": ~fn.col("domain").isin(*FREE_MAIL), "country": country(fn.col("phone"))})
    scored = known.withColumn("score", fn.when(fn.col("domain").isNotNull(), score()))
    return scored.select(
        fn.concat(fn.lit(f"enriched:{into}:"), fn.col("id").cast("string")).alias("idempotency_key"),
        "priority", "traceparent", fn.to_json(body()).alias("body"),
    )  # fmt: skip


def body() -> Column:
    grade = fn.when(fn.col("score") >= HOT, "hot").when(fn.col("score") >= WARM, "warm").otherwise("cold")
    problem = fn.when(fn.col("domain").isNull(), "no e-mail address")
    return fn.struct(
        fn.col("id").alias("lead_id"), "email", "domain", "lead.name", "lead.company", "phone", "country", "is_company",
        "score", fn.when(fn.col("score").isNotNull(), grade).alias("grade"), problem.alias("problem"),
    )  # fmt: skip


def country(phone: Column) -> Column:
    """Of the longest prefix that is known."""
    found: Column = fn.lit(None).cast("string")
    for prefix in sorted(COUNTRIES, key=len):
        found = fn.when(phone.startswith(prefix), COUNTRIES[prefix]).otherwise(found)
    return found


def score() -> Column:
    points = fn.when(fn.col("is_company"), 30).otherwise(0)
    points += fn.least(
        fn.lit(30), fn.coalesce(fn.log10(fn.greatest("lead.employees", fn.lit(1))) * 10, fn.lit(0.0))
    ).cast("int")
    points += fn.when(fn.col("country").isNotNull(), 10).otherwise(0)
    origin = fn.lower("lead.source")
    for name, more in SOURCES.items():
        points += fn.when(origin == name, more).otherwise(0)
    return points
