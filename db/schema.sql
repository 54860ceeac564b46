-- Generated from db/migrations by `python -m tuner.store.migrate`.

CREATE TABLE certificate (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	source_hash VARCHAR(64) NOT NULL,
	family TEXT NOT NULL,
	config TEXT NOT NULL,
	checks TEXT NOT NULL,
	"when" VARCHAR(32) NOT NULL,
	CONSTRAINT fk_certificate_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_certificate_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_certificate_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT uq_certificate UNIQUE (problem_id, silicon_id, software_id, source_hash)
);

CREATE TABLE champion_log (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	action VARCHAR(16) NOT NULL,
	family TEXT NOT NULL,
	config TEXT NOT NULL,
	source_hash VARCHAR(64) NOT NULL,
	text_hash VARCHAR(64) NOT NULL,
	build_options TEXT NOT NULL,
	"plan" TEXT NOT NULL,
	time_ms DOUBLE,
	noise DOUBLE,
	run_id INTEGER,
	checks TEXT,
	reason TEXT NOT NULL,
	"when" VARCHAR(32) NOT NULL,
	CONSTRAINT fk_champion_log_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_champion_log_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_champion_log_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT fk_champion_log_text_hash FOREIGN KEY(text_hash) REFERENCES source (hash),
	CONSTRAINT fk_champion_log_run_id FOREIGN KEY(run_id) REFERENCES run (id)
);

CREATE INDEX ix_champion_log_problem_id_silicon_id_software_id ON champion_log (problem_id, silicon_id, software_id);

CREATE TABLE compile_log (
	hash VARCHAR(64) NOT NULL,
	text TEXT NOT NULL,
	CONSTRAINT pk_compile_log PRIMARY KEY (hash)
);

CREATE TABLE gemm_tuner_schema (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT gemm_tuner_schema_pkc PRIMARY KEY (version_num)
);

CREATE TABLE in_flight (
	id INTEGER NOT NULL,
	run_id INTEGER NOT NULL,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	family TEXT NOT NULL,
	config TEXT NOT NULL,
	family_hash VARCHAR(64) NOT NULL,
	source_hash VARCHAR(64) NOT NULL,
	stage VARCHAR(32) NOT NULL,
	attempts INTEGER NOT NULL,
	host TEXT NOT NULL,
	boot TEXT NOT NULL,
	pid INTEGER NOT NULL,
	process_started TEXT NOT NULL,
	began VARCHAR(32) NOT NULL,
	CONSTRAINT pk_in_flight PRIMARY KEY (id),
	CONSTRAINT fk_in_flight_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_in_flight_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_in_flight_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT fk_in_flight_run_id FOREIGN KEY(run_id) REFERENCES run (id),
	CONSTRAINT uq_in_flight UNIQUE (run_id, family, config)
);

CREATE TABLE problem (
	id INTEGER NOT NULL,
	m INTEGER NOT NULL,
	n INTEGER NOT NULL,
	k INTEGER NOT NULL,
	batch INTEGER NOT NULL,
	dtype VARCHAR(16) NOT NULL,
	trans_a BOOLEAN NOT NULL,
	trans_b BOOLEAN NOT NULL,
	math VARCHAR(32) NOT NULL,
	align INTEGER NOT NULL,
	CONSTRAINT pk_problem PRIMARY KEY (id),
	CONSTRAINT uq_problem UNIQUE (m, n, k, batch, dtype, trans_a, trans_b, math, align)
);

CREATE TABLE run (
	id INTEGER NOT NULL,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	settings TEXT NOT NULL,
	summary TEXT,
	started VARCHAR(32) NOT NULL,
	finished VARCHAR(32),
	CONSTRAINT pk_run PRIMARY KEY (id),
	CONSTRAINT fk_run_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_run_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_run_software_id FOREIGN KEY(software_id) REFERENCES software (id)
);

CREATE TABLE silicon (
	id INTEGER NOT NULL,
	vendor TEXT NOT NULL,
	name TEXT NOT NULL,
	kind VARCHAR(16) NOT NULL,
	compute_units INTEGER NOT NULL,
	memory_gib INTEGER NOT NULL,
	CONSTRAINT pk_silicon PRIMARY KEY (id),
	CONSTRAINT uq_silicon UNIQUE (vendor, name, kind, compute_units, memory_gib)
);

CREATE TABLE software (
	id INTEGER NOT NULL,
	platform TEXT NOT NULL,
	driver TEXT NOT NULL,
	c_version TEXT NOT NULL,
	device_string TEXT NOT NULL,
	CONSTRAINT pk_software PRIMARY KEY (id),
	CONSTRAINT uq_software UNIQUE (platform, driver, c_version, device_string)
);

CREATE TABLE source (
	hash VARCHAR(64) NOT NULL,
	text TEXT NOT NULL,
	CONSTRAINT pk_source PRIMARY KEY (hash)
);

CREATE TABLE trial (
	id INTEGER NOT NULL,
	run_id INTEGER NOT NULL,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	family TEXT NOT NULL,
	config TEXT NOT NULL,
	family_hash VARCHAR(64) NOT NULL,
	source_hash VARCHAR(64) NOT NULL,
	verdict VARCHAR(32) NOT NULL,
	samples BLOB NOT NULL,
	compile_ms DOUBLE NOT NULL,
	verify_ms DOUBLE NOT NULL,
	error_ratio DOUBLE,
	message TEXT NOT NULL,
	registers INTEGER,
	spill_bytes INTEGER,
	local_bytes INTEGER,
	log_hash VARCHAR(64),
	"when" VARCHAR(32) NOT NULL, time_ms DOUBLE,
	CONSTRAINT pk_trial PRIMARY KEY (id),
	CONSTRAINT fk_trial_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_trial_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_trial_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT fk_trial_run_id FOREIGN KEY(run_id) REFERENCES run (id),
	CONSTRAINT fk_trial_log_hash FOREIGN KEY(log_hash) REFERENCES compile_log (hash)
);

CREATE INDEX ix_trial_problem_id_silicon_id_software_id ON trial (problem_id, silicon_id, software_id);

CREATE INDEX ix_trial_problem_id_silicon_id_software_id_time_ms ON trial (problem_id, silicon_id, software_id, time_ms);

CREATE INDEX ix_trial_verdict ON trial (verdict);
