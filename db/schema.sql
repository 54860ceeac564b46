-- Generated from db/migrations by `python -m tuner.store.migrate`.

CREATE TABLE calibration (
	id INTEGER NOT NULL,
	instance TEXT NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	night_id INTEGER,
	stage VARCHAR(32) NOT NULL,
	reading TEXT NOT NULL,
	"when" VARCHAR(32) NOT NULL,
	CONSTRAINT pk_calibration PRIMARY KEY (id),
	CONSTRAINT fk_calibration_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_calibration_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT fk_calibration_night_id FOREIGN KEY(night_id) REFERENCES night (id)
);

CREATE INDEX ix_calibration_instance ON calibration (instance);

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

CREATE TABLE imported (
	id INTEGER NOT NULL,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	kind VARCHAR(16) NOT NULL,
	source_hash VARCHAR(64) NOT NULL,
	body TEXT NOT NULL,
	body_hash VARCHAR(64) NOT NULL,
	imported_from TEXT NOT NULL,
	"when" VARCHAR(32) NOT NULL,
	CONSTRAINT pk_imported PRIMARY KEY (id),
	CONSTRAINT fk_imported_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_imported_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_imported_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT uq_imported UNIQUE (kind, body_hash)
);

CREATE INDEX ix_imported_problem_id_silicon_id_software_id ON imported (problem_id, silicon_id, software_id);

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

CREATE TABLE miss (
	id INTEGER NOT NULL,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	origin VARCHAR(32) NOT NULL,
	asked INTEGER NOT NULL,
	first VARCHAR(32) NOT NULL,
	last VARCHAR(32) NOT NULL,
	CONSTRAINT pk_miss PRIMARY KEY (id),
	CONSTRAINT fk_miss_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_miss_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_miss_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT uq_miss UNIQUE (problem_id, silicon_id, software_id)
);

CREATE TABLE night (
	id INTEGER NOT NULL,
	name TEXT NOT NULL,
	host TEXT NOT NULL,
	boot TEXT NOT NULL,
	pid INTEGER NOT NULL,
	process_started TEXT NOT NULL,
	started VARCHAR(32) NOT NULL,
	finished VARCHAR(32),
	state VARCHAR(16) NOT NULL,
	"plan" TEXT NOT NULL,
	progress TEXT NOT NULL,
	summary TEXT,
	CONSTRAINT pk_night PRIMARY KEY (id)
);

CREATE INDEX ix_night_name ON night (name);

CREATE TABLE peak (
	id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	what VARCHAR(16) NOT NULL,
	dtype VARCHAR(16) NOT NULL,
	math VARCHAR(32) NOT NULL,
	value DOUBLE NOT NULL,
	noise DOUBLE NOT NULL,
	method TEXT NOT NULL,
	"when" VARCHAR(32) NOT NULL,
	CONSTRAINT pk_peak PRIMARY KEY (id),
	CONSTRAINT fk_peak_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_peak_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT uq_peak UNIQUE (silicon_id, software_id, what, dtype, math)
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

CREATE TABLE regression (
	id INTEGER NOT NULL,
	problem_id INTEGER NOT NULL,
	silicon_id INTEGER NOT NULL,
	software_id INTEGER NOT NULL,
	family TEXT NOT NULL,
	config TEXT NOT NULL,
	source_hash VARCHAR(64) NOT NULL,
	night_id INTEGER,
	before_ms DOUBLE NOT NULL,
	now_ms DOUBLE NOT NULL,
	noise DOUBLE NOT NULL,
	detail TEXT NOT NULL,
	opened VARCHAR(32) NOT NULL,
	closed VARCHAR(32),
	reason TEXT NOT NULL,
	acknowledged BOOLEAN NOT NULL,
	CONSTRAINT pk_regression PRIMARY KEY (id),
	CONSTRAINT fk_regression_problem_id FOREIGN KEY(problem_id) REFERENCES problem (id),
	CONSTRAINT fk_regression_silicon_id FOREIGN KEY(silicon_id) REFERENCES silicon (id),
	CONSTRAINT fk_regression_software_id FOREIGN KEY(software_id) REFERENCES software (id),
	CONSTRAINT fk_regression_night_id FOREIGN KEY(night_id) REFERENCES night (id)
);

CREATE INDEX ix_regression_problem_id_silicon_id_software_id ON regression (problem_id, silicon_id, software_id);

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
	"when" VARCHAR(32) NOT NULL, time_ms DOUBLE, imported_from TEXT, extra TEXT,
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
